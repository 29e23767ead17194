"""A few hundred made-up rows in the formats of the gallery's data, with their quirks: bytes that are not UTF-8, US and
English dates, texts of several lines, missing values, cancelled orders. Each has something to learn."""

import csv
import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

Random = np.random.Generator
SOILS = [f"Soil_Type{number}" for number in range(1, 41)]
AREAS = [f"Wilderness_Area{number}" for number in range(1, 5)]
FOREST_NUMBERS = [
    "Elevation", "Aspect", "Slope", "Horizontal_Distance_To_Hydrology", "Vertical_Distance_To_Hydrology",
    "Horizontal_Distance_To_Roadways", "Hillshade_9am", "Hillshade_Noon", "Hillshade_3pm",
    "Horizontal_Distance_To_Fire_Points",
]  # fmt: skip


def make_adult(random: Random, path: Path, num_rows: int = 800) -> None:
    words = ["workclass", "education", "marital-status", "occupation", "relationship", "race", "gender"]
    rows = pd.DataFrame({name: random.choice(["?", "Private", "Local-gov"], num_rows) for name in words})
    rows["native-country"] = random.choice(["United-States", "?"], num_rows)
    rows["age"] = random.integers(17, 90, num_rows)
    for name, most in (("educational-num", 16), ("capital-gain", 99999), ("capital-loss", 4356), ("fnlwgt", 10**6)):
        rows[name] = random.integers(0, most, num_rows)
    rows["hours-per-week"] = random.integers(1, 99, num_rows)
    is_rich = (rows["educational-num"] > 8) ^ (random.random(num_rows) < 0.1)
    rows["income"] = np.where(is_rich, ">50K", "<=50K")
    rows.to_parquet(path)


def make_california(random: Random, path: Path, num_rows: int = 600) -> None:
    names = ["MedInc", "HouseAge", "AveRooms", "AveBedrms", "Population", "AveOccup", "Latitude", "Longitude"]
    rows = pd.DataFrame(random.lognormal(1, 0.5, (num_rows, len(names))), columns=names)
    rows["MedHouseVal"] = rows["MedInc"] + random.normal(0, 0.3, num_rows)
    rows.to_parquet(path)


def make_covtype(random: Random, path: Path, num_rows: int = 900) -> None:
    rows = pd.DataFrame(random.integers(0, 3000, (num_rows, len(FOREST_NUMBERS))), columns=FOREST_NUMBERS)
    for names in (AREAS, SOILS):
        chosen = np.eye(len(names), dtype=int)[random.integers(0, len(names), num_rows)]
        rows = pd.concat([rows, pd.DataFrame(chosen, columns=names)], axis=1)
    rows["Cover_Type"] = 1 + rows["Elevation"] * 7 // 3000
    rows.to_csv(path, index=False)


def make_weather(random: Random, path: Path, num_rows: int = 800) -> None:
    rows = pd.DataFrame(random.normal(20, 5, (num_rows, 8)).round(1), columns=[f"feat_{n}" for n in range(1, 9)])
    rows["target"] = (rows["feat_2"] > 20).astype(int)
    rows.to_csv(path, index=False)


def make_clicks(random: Random, path: Path, num_rows: int = 240) -> None:
    """Six logs, two of which have affinities that others lack, and what is said of items."""
    for policy in ("random", "bts"):
        for campaign, num_items in (("all", 8), ("men", 3), ("women", 5)):
            folder = path / policy / campaign
            folder.mkdir(parents=True)
            seconds = np.sort(random.integers(0, 12 * 3600, num_rows))
            times = pd.Timestamp("2019-11-25T09:00+00:00") + pd.to_timedelta(seconds + random.random(num_rows), "s")
            rows = pd.DataFrame({"timestamp": times.map(str), "item_id": random.integers(0, num_items, num_rows)})
            rows["position"] = random.integers(1, 4, num_rows)
            rows["click"] = (random.random(num_rows) < np.where(rows["item_id"] == 2, 0.8, 0.05)).astype(int)
            rows["propensity_score"] = 1 / num_items
            for number in range(4):
                rows[f"user_feature_{number}"] = random.choice(["81ce123cbb5bd8ce", "cef3390ed299c09"], num_rows)
            for number in range(num_items):
                rows[f"user-item_affinity_{number}"] = 0.0
            rows.to_csv(folder / f"{campaign}.csv")
            (folder / "item_context.csv").write_text(",item_id,item_feature_0\n0,0,-0.5\n")


def make_retail(random: Random, path: Path, num_rows: int = 500) -> None:
    """Latin-1, US dates without leading zeros, orders without a customer, and cancelled ones."""
    items = {"85123A": "WHITE HANGING HEART", "22423": 'REGENCY CAKESTAND, "3 TIER"', "POST": "POSTAGE \xa35 \xdcBER"}
    with path.open("w", encoding="latin-1", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["InvoiceNo", "StockCode", "Description", "Quantity", "InvoiceDate", "UnitPrice", "CustomerID",
                        "Country"])  # fmt: skip
        for row in range(num_rows):
            code = str(random.choice(list(items)))
            quantity = max(1, round(float(random.lognormal(3 if code == "22423" else 1, 0.3))))
            is_cancelled = row % 20 == 7
            time = datetime.datetime(2011, 8, 26, 8, 5) + datetime.timedelta(minutes=30 * row)
            date = f"{time.month}/{time.day}/{time.year} {time.hour}:{time.minute:02}"
            customer = "" if row % 4 == 0 else random.integers(12346, 12366)
            lines.writerow([f"{'C' * is_cancelled}{536365 + row}", code, items[code],
                            -quantity if is_cancelled else quantity, date, 2.55, customer, "EIRE"])  # fmt: skip


def make_runway(random: Random, path: Path, num_rows: int = 500) -> None:
    """Dates in words, texts of several lines with quotes, a column without a name, heights in feet and inches."""
    with path.open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["", "fit", "user_id", "bust size", "item_id", "weight", "rating", "rented for", "review_text",
                        "body type", "review_summary", "category", "height", "size", "age", "review_date"])  # fmt: skip
        for row in range(num_rows):
            date = datetime.date(2016, 12, 5) + datetime.timedelta(days=int(row * 70 / num_rows))
            is_good = bool(random.random() < 0.7)
            text = f'I said "{"lovely" if is_good else "itchy"}"!\n\nWould I rent it again?\r\n{random.integers(99)}'
            rating = "" if row % 50 == 3 else 10 if is_good else 4
            lines.writerow([row, "fit", random.integers(1, 300), "34d", random.integers(1, 20), "137lbs", rating,
                            "party", text, "hourglass", "Gorgeous" if is_good else "No", "gown", "5' 8\"", 12,
                            "" if row % 3 else 28, f"{date:%B} {date.day}, {date.year}"])  # fmt: skip


def make_sales(random: Random, path: Path, num_stores: int = 25) -> None:
    """The newest day first, and shops that are closed on Sundays."""
    days = pd.date_range("2014-12-16", "2015-01-14")[::-1]
    lines = ['"Store","DayOfWeek","Date","Sales","Customers","Open","Promo","StateHoliday","SchoolHoliday"']
    for day in days:
        for store in range(1, num_stores + 1):
            is_open = day.day_of_week != 6
            sales = round(float(np.exp(6 + 0.1 * store + random.normal(0, 0.05)))) * is_open
            holiday = '"a"' if (day.month, day.day) == (1, 1) else '"0"'
            lines.append(
                f'{store},{day.day_of_week + 1},{day:%Y-%m-%d},{sales},{sales // 9},{is_open:d},1,{holiday},"1"'
            )
    path.write_text("\n".join(lines) + "\n")


MAKERS: dict[str, Callable[[Random, Path], Any]] = {
    "adult": make_adult,
    "california": make_california,
    "covtype": make_covtype,
    "weather": make_weather,
    "clicks": make_clicks,
    "retail": make_retail,
    "runway": make_runway,
    "sales": make_sales,
}

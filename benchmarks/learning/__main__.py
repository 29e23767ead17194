"""How good is what is learned: Samovar and its peers on tables and streams, with seeds and intervals.

    python -m benchmarks.learning [elec adult …] [--results build/bench/learning] [--page docs/how_good.md]

Every outcome is a JSON file in the folder of results. One that is there is not measured again, so a run that was
stopped goes on. A page keeps its section of streams or of tables if the folder has no outcome of that kind. Processor
times are per thread and comparable between contestants; scores do not depend on the machine.
"""

import argparse
import sys
from pathlib import Path

from benchmarks.contest.summary import find_place, write_into
from benchmarks.learning.contest import Plan, open_field, run
from benchmarks.learning.page import BEGIN, END, STREAMS, TABLES, to_markdown

from samovar.errors import BadInput

MODULES = (STREAMS, TABLES)


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.learning",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    fields = [open_field(module) for module in MODULES]
    known = {
        "data": sorted({name for field in fields for name in field.tasks}),
        "contestant": sorted({name for field in fields for name in field.contestants}),
    }
    parser.add_argument(
        "tasks", nargs="*", metavar="NAME", help=f"only these; all by default: {', '.join(known['data'])}"
    )
    parser.add_argument("--only", nargs="+", default=[], metavar="CONTESTANT", help="only these; all by default")
    parser.add_argument("--results", type=Path, default=Path("build/bench/learning"), help="folder for the JSON files")
    parser.add_argument("--page", type=Path, help="write the tables between the markers of this page")
    parser.add_argument("--table-rows", type=int, default=10_000, help="rows to learn from, at most (10,000)")
    parser.add_argument("--stream-rows", type=int, default=60_000, help="rows of a stream, at most (60,000)")
    parser.add_argument("--seeds", type=int, default=3, help="seeds of contestants that draw numbers, at most (3)")
    parser.add_argument("--processes", type=int, default=2, help="contestants at a time, one thread each (2)")
    parser.add_argument("--render", action="store_true", help="run nothing, only show and write what there is")
    options = parser.parse_args()
    for what, names in (("data", options.tasks), ("contestant", options.only)):
        unknown = [name for name in names if name not in known[what]]
        if unknown:
            parser.error(f"no {what} {', '.join(unknown)}; there are {', '.join(known[what])}")
    if options.page:
        try:
            find_place(options.page, (BEGIN, END))  # fail now, not after half an hour
        except BadInput as error:
            parser.error(str(error))
    return options


def make_plan(module: str, most_rows: int, options: argparse.Namespace) -> Plan:
    field = open_field(module)
    tasks = [name for name in field.tasks if name in (options.tasks or field.tasks)]
    contestants = [name for name in field.contestants if name in (options.only or field.contestants)]
    return Plan(module, tasks, contestants, most_rows, options.seeds)


def main() -> int:
    options = read_options()
    errors: list[Exception] = []
    if not options.render:
        for module, most_rows in zip(MODULES, (options.stream_rows, options.table_rows), strict=True):
            try:
                errors += run(make_plan(module, most_rows, options), options.results, options.processes)
            except BadInput as error:
                print(f"python -m benchmarks.learning: {error}", file=sys.stderr)
                return 2
    old = options.page.read_text().partition(BEGIN)[2].partition(END)[0] if options.page else ""
    text = to_markdown(options.results, old)
    print(text)
    if options.page:
        write_into(options.page, text, (BEGIN, END))
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())

"""The file for spark-submit; `entry` says what it does.

spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0 spark_validation/submit.py \
        --bootstrap-server host:9092 --topic orders.v1 --output hdfs:///reports/orders.json
"""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> int:
    """Run with the arguments of the command line."""
    here = Path(__file__).resolve().parent
    if sys.path and Path(sys.path[0]).resolve() == here:
        # Python looks beside the file that it runs, but the package is one folder up.
        sys.path[0] = str(here.parent)
    from spark_validation.entry import run

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())

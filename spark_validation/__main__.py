"""`python -m spark_validation`: as spark-submit runs it, with whatever Spark PySpark finds."""

from __future__ import annotations

import sys

from spark_validation.submit import run

if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))

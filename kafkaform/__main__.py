"""The `kafkaform` command, also as `python -m kafkaform`."""

from kafkaform.cli.main import main

if __name__ == "__main__":
    main()

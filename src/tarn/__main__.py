"""`python -m tarn` is `tarn`."""

from tarn.cli import main

if __name__ == "__main__":
    main()

"""What the documentation's figures are made with: ``python -m bench --out bench/out``."""

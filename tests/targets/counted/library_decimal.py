"""decimal in pure Python."""

import _pydecimal as decimal

decimal.getcontext().prec = 30
total = decimal.Decimal(0)
for i in range(1, 30):
    total += decimal.Decimal(1) / i
total.sqrt(), total.ln(), total.quantize(decimal.Decimal("0.001")), str(total), hash(total)

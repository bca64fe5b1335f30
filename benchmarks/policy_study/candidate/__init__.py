"""The policy that is to take the place of ``slo`` when it is better on the check set; the study runs it as ``slo2``.

One blend of forecasts with its own empirical errors, one backward programme, one control that follows the error budget.
"""

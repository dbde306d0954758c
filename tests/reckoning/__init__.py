"""A plain-Python reckoning of an account's statistics, to hold against what the pipeline published.

It follows the written definitions of the numbers and shares nothing with the SQL that computes them:
Decimals, and loops over the sets in order. Start at compare.assert_account_equals_reckoning.
"""

"""Storms: the whole stack under load while a seeded plan of faults goes over it; `make faults MINUTES= SEED=`.

Start at storm.py. A storm is made of rounds, each with accounts of its own: clients save, edit, move, delete and
import (load.py), readers note every answer (readers.py), and faults are aimed at stages and messages in flight
(plan.py says which and when, the files in kinds/ what each one does). Then the faults end, and invariants.py holds the
database against the receipts, the independent reckoning and, by history.py, every answer that was noted.

It knows the product by its contract alone: public functions, documented tables, processes and messages.
"""

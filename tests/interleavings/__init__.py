"""One scenario a race, on real sessions: who holds what is arranged, waited for, and then let go."""

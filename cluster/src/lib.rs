//! Scenario to run directory: plans, rounds, and the belljar command.

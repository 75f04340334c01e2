//! Costs of running code under a time model.
//!
//! Costs are numbers in a scenario; an instruction's cost follows from its class alone. The emitter and cycle accounting
//! query them.

/// The class of cost that each instruction belongs to.
pub mod classes;
/// Names, meaning and default costs of the classes.
pub mod cost_class;
/// A time model's numbers: costs of classes, caches, and their limits.
pub mod timing;

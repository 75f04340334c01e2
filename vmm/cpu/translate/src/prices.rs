//! What running code costs where time is modelled.
//!
//! Costs are numbers of a scenario; they follow from an instruction's class alone. The emitter and cycle accounting ask.

/// The class of cost that each instruction belongs to.
pub mod classes;
/// Names, meaning and default costs of the classes.
pub mod cost_class;
/// A time model's numbers: costs of classes, caches, and their limits.
pub mod timing;

//! The guest's processor: modes, interrupts, devices.

mod breakpoints;
mod devices;
mod hostile;
mod interrupts;
mod modes;
mod nmi;
mod protection;
mod states;

//! A run on several hosts.
//!
//! Host 0 has the run directory and started the others; each runs some of the nodes. What
//! comes out does not tell how many there were: results follow from virtual time alone, and
//! how far nodes run in one piece was never part of them.
//!
//! | | |
//! |---|---|
//! | [`Muster`](muster::Muster) | finding hosts and starting an [agent] on each |
//! | [`placement`], [`Partition`] | who runs which nodes |
//! | [`Outlook`] | the same before any host was asked |
//! | [`Exchange`] | what hosts tell each other while nodes run |

pub mod agent;
mod bootstrap;
mod exchange;
mod list;
mod message;
pub mod muster;
mod outlook;
mod partition;
pub mod placement;
mod provision;
mod remote;
mod store;

pub use exchange::{Exchange, ExchangeError};
pub(crate) use exchange::{HEAD, News};
pub use list::HostListError;
pub(crate) use message::{Final, Kept, Message, Record, Send};
pub use message::{reread, samples};
pub use outlook::{Outlook, OutlookError};
pub use partition::Partition;
pub use provision::{Given, ProvisionError};
pub use store::StoreError;

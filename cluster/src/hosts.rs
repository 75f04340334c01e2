//! A run on several hosts.
//!
//! Host 0 has the run directory and started the others; each runs some of the nodes. What
//! comes out does not tell how many there were: results follow from virtual time alone, and
//! how far nodes run in one piece was never part of them.
//!
//! | | |
//! |---|---|
//! | [`Muster`](hosts::muster::Muster) | finding hosts and starting an [agent](hosts::agent) on each |
//! | [`placement`](hosts::placement), [`Partition`](hosts::Partition) | who runs which nodes |
//! | [`Preview`](hosts::Preview) | the same before any host was asked |
//! | [`Exchange`](hosts::Exchange) | what hosts tell each other while nodes run |

/// A host's part in a run that another host started.
pub mod agent;
/// What passes between an agent and whoever starts it before they are connected.
mod bootstrap;
/// What a host tells the others while the run is under way, and what it hears.
mod exchange;
/// Which hosts a scenario is to run on, before any of them is asked.
mod list;
/// What hosts of a run tell each other.
mod message;
/// Finding a run's hosts and starting agents on them.
pub mod muster;
/// Which host runs which nodes.
mod partition;
/// Which nodes go to which host.
pub mod placement;
/// Which nodes would go where, told before any host is asked.
mod preview;
/// Handing other hosts what they need to run their nodes.
mod provision;
/// What one host knows of nodes that others run.
mod remote;
/// Files that one host of a run has and others need, found by what is in them.
mod store;

pub use exchange::{Exchange, ExchangeError};
pub(crate) use exchange::{HEAD, News};
pub use list::HostListError;
pub(crate) use message::{Final, Kept, Message, Record, Send};
pub use message::{reread, samples};
pub use partition::Partition;
pub use preview::{Preview, PreviewError};
pub use provision::{Given, ProvisionError};
pub use store::StoreError;

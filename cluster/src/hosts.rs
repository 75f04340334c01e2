//! A run on several hosts.
//!
//! Host 0 has the run directory and started the others; each runs some of the nodes. Results do not
//! depend on the number of hosts: they follow from virtual time alone, which the length of nodes'
//! turns does not affect.
//!
//! | | |
//! |---|---|
//! | [`Muster`](hosts::muster::Muster) | finding hosts and starting an [agent](hosts::agent) on each |
//! | [`placement`](hosts::placement), [`Partition`](hosts::Partition) | assignment of nodes to hosts |
//! | [`Preview`](hosts::Preview) | the assignment before any host is contacted |
//! | [`Exchange`](hosts::Exchange) | messages between hosts while nodes run |

/// A host's part in a run that another host started.
pub mod agent;
/// Messages between an agent and its starter before they are connected.
mod bootstrap;
/// Messages between hosts of a running simulation.
mod exchange;
/// The hosts of a scenario, before any of them is contacted.
mod list;
/// The messages of a run's hosts.
mod message;
/// Finding a run's hosts and starting agents on them.
pub mod muster;
/// The assignment of nodes to hosts.
mod partition;
/// Placement of nodes on hosts.
pub mod placement;
/// Preview of the placement, before any host is contacted.
mod preview;
/// Sends other hosts the files for their nodes.
mod provision;
/// The known state of nodes on other hosts.
mod remote;
/// Files of one host that others need, identified by their content.
mod store;

pub use exchange::{Exchange, ExchangeError};
pub(crate) use exchange::{HEAD, News};
pub use list::HostListError;
pub(crate) use message::{DirectoryData, Final, HostMessage, Kept, NetworkKind, Send};
pub use message::{reread, samples};
pub use partition::Partition;
pub use preview::{Preview, PreviewError};
pub use provision::{Given, ProvisionError};
pub use store::StoreError;

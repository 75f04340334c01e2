//! Bytes that a member sends to others in a collective operation, as far as the call determines the receivers.
//!
//! A member's own piece is no traffic, and neither is a piece without bytes. Called by the comparison of matrices.

use super::{CallKey, Truth};
use crate::job::{Action, Collective, Topology};

/// The receivers of a part's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Receivers {
    /// The root gives to each other.
    FromRoot,
    /// Each gives to the root.
    ToRoot,
    /// Each gives to each other.
    All,
}

impl Truth {
    /// For each part that a call begins, the ranks that receive its bytes; `None` if the algorithm determines
    /// them.
    pub(crate) fn traffic(&self, call: CallKey) -> Vec<Option<Vec<(u32, u64)>>> {
        let operations = self.begun.get(&call).into_iter().flatten();
        let parts = operations.filter_map(|operation| {
            let of = &self.job.operations[*operation];
            let Action::Collective {
                operation,
                root,
                bytes,
                ..
            } = of.action
            else {
                return None;
            };
            let communicator = &self.job.communicators[of.communicator];
            let own = call.0;
            let partners = communicator.partners(own).iter().copied();
            if operation.is_neighborhood() {
                let piece = |other| (other, operation.piece(bytes, own, other));
                let [_, destinations] = communicator.neighbors(own);
                let given = destinations.into_iter().flatten().map(piece).collect();
                // The trace has the numbers of a graph's neighbours and not their ranks.
                let is_grid = matches!(communicator.topology, Some(Topology::Grid(_)));
                return Some(is_grid.then_some(given));
            }
            let receivers = receivers(operation).map(|receivers| {
                let given = partners.filter(|other| match receivers {
                    Receivers::FromRoot => own == root,
                    Receivers::ToRoot => *other == root,
                    Receivers::All => true,
                });
                let given = given.filter(|other| *other != own);
                let piece = |other| (other, operation.piece(bytes, own, other));
                given.map(piece).collect()
            });
            Some(receivers)
        });
        parts.collect()
    }
}

/// The receivers of an operation that moves data without computing.
fn receivers(operation: Collective) -> Option<Receivers> {
    match operation {
        Collective::Bcast | Collective::Scatter | Collective::Scatterv => Some(Receivers::FromRoot),
        Collective::Gather | Collective::Gatherv => Some(Receivers::ToRoot),
        Collective::Allgather
        | Collective::Allgatherv
        | Collective::Alltoall
        | Collective::Alltoallv
        | Collective::Alltoallw => Some(Receivers::All),
        _ => None,
    }
}

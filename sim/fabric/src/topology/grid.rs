//! Checks of shapes whose switches form a grid: the number of switches, and room for all hosts.
//!
//! Called by tori and HyperX.

use super::TopologyError;

/// Switches on a grid, with places for hosts at each.
pub(super) struct Grid<'d> {
    /// Name of the shape, for errors.
    pub(super) shape: &'static str,
    /// Switches along each dimension.
    pub(super) dimensions: &'d [u32],
    /// Places for hosts at each switch.
    pub(super) hosts_per_switch: u32,
}

impl Grid<'_> {
    pub(super) fn switches(&self) -> u64 {
        self.dimensions.iter().fold(1, |product: u64, &size| {
            product.saturating_mul(u64::from(size))
        })
    }

    /// Maximum number of hosts.
    pub(super) fn capacity(&self) -> u64 {
        self.switches()
            .saturating_mul(u64::from(self.hosts_per_switch))
    }

    pub(super) fn refuse(&self, reason: String) -> TopologyError {
        TopologyError::Shape {
            shape: self.shape,
            reason,
        }
    }

    /// Checks that its dimensions are valid.
    pub(super) fn check_dimensions(&self) -> Result<(), TopologyError> {
        let dimensions = self.dimensions;
        if dimensions.is_empty() || dimensions.len() > 8 || dimensions.contains(&0) {
            let reason = "give it 1 to 8 dimensions of at least 1 switch each";
            return Err(self.refuse(reason.into()));
        }
        Ok(())
    }

    /// Checks that there is room for `hosts` hosts.
    pub(super) fn check_room(&self, hosts: u32) -> Result<(), TopologyError> {
        if self.hosts_per_switch == 0 || self.capacity() < u64::from(hosts) {
            return Err(self.refuse(format!(
                "it has room for {} hosts, not {hosts}; give it longer dimensions or more hosts per switch",
                self.capacity()
            )));
        }
        Ok(())
    }
}

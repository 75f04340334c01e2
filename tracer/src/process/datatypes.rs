//! Calls that create or query datatypes.
//!
//! Used when calls return.

use belljar_mpi::Base;
use belljar_trace::{Bounds, CallDatatypes, DatatypeContents, Detailed, Details, Fact};

use super::Process;
use crate::decode::action::Action;
use crate::decode::arguments::Arguments;

/// Returns the details of a call that created or queried a datatype.
pub(super) fn datatype_details(bounds: Option<Bounds>, made: Option<DatatypeContents>) -> Detailed {
    let made = made.map(|made| CallDatatypes {
        made: Some(made),
        ..CallDatatypes::default()
    });
    Detailed::of(Details {
        bounds,
        datatypes: made.map(Box::new),
        ..Details::default()
    })
}

impl Process {
    /// Handles calls that create or query a datatype. Returns the datatype, its bounds if known, and the contents of a new one.
    pub(super) fn learn_datatype(
        &mut self,
        action: Action,
        arguments: &mut Arguments<'_>,
    ) -> Option<(Fact, Option<Bounds>, Option<DatatypeContents>)> {
        if action == Action::MakeDatatype {
            let handle = arguments.pointed_handle(Base::Datatype)?;
            let (datatype, made) = self.datatypes.construct(handle, arguments);
            let bounds = self.datatypes.bounds(handle);
            return Some((Fact::Datatype(datatype), bounds, Some(made)));
        }
        let handle = arguments.first_handle(Base::Datatype)?;
        let learned = if arguments.has("size") {
            let size = u64::try_from(arguments.integer("size")?).ok()?;
            self.datatypes.learn_size(handle, size)
        } else {
            let bounds = Bounds {
                lower: arguments.integer("lb")?,
                extent: arguments.integer("extent")?,
            };
            self.datatypes.learn_bounds(handle, bounds)
        };
        let bounds = self.datatypes.bounds(handle);
        Some((Fact::Datatype(learned?), bounds, None))
    }
}

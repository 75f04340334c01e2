//! Tables and their columns.
//!
//! A column's name ends in its unit, if it has one. Documented in `docs/export.md`; the writer of rows and both encodings
//! take the order from here.

/// An exported table: a kind of record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExportTable {
    /// Calls of MPI functions.
    Calls,
    /// Messages, a row for each side.
    Messages,
    /// Parts in collective operations.
    Collectives,
    /// Accesses to windows.
    Accesses,
    /// Members of communicators.
    Communicators,
    /// Datatypes that programs created.
    Datatypes,
    /// Frames of call sites.
    Sites,
    /// Records of the user's probes.
    Probes,
}

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// Nonnegative numbers.
    Unsigned,
    /// Numbers.
    Signed,
    /// Texts.
    Text,
}

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub kind: ColumnType,
}

const fn number(name: &'static str) -> Column {
    let kind = ColumnType::Unsigned;
    Column { name, kind }
}

const fn signed(name: &'static str) -> Column {
    let kind = ColumnType::Signed;
    Column { name, kind }
}

const fn text(name: &'static str) -> Column {
    let kind = ColumnType::Text;
    Column { name, kind }
}

const CALLS: &[Column] = &[
    number("call"),
    number("job"),
    number("rank"),
    number("node"),
    number("process"),
    number("thread"),
    number("vcpu"),
    text("function"),
    number("entry_cycles"),
    number("exit_cycles"),
    number("entry_ps"),
    number("exit_ps"),
    number("inside_ps"),
    number("calls"),
    signed("result"),
    number("site"),
];

const MESSAGES: &[Column] = &[
    number("message"),
    text("side"),
    number("call"),
    number("time_ps"),
    number("job"),
    number("rank"),
    number("peer_job"),
    number("peer_rank"),
    number("communicator"),
    signed("tag"),
    number("bytes"),
    number("request"),
];

const COLLECTIVES: &[Column] = &[
    number("call"),
    number("time_ps"),
    number("job"),
    number("rank"),
    text("operation"),
    number("communicator"),
    number("root"),
    number("sent_bytes"),
    number("received_bytes"),
    number("request"),
];

const ACCESSES: &[Column] = &[
    number("call"),
    number("time_ps"),
    number("job"),
    number("rank"),
    text("access"),
    number("window"),
    number("communicator"),
    number("peer_job"),
    number("peer_rank"),
    number("sent_bytes"),
    number("received_bytes"),
];

const COMMUNICATORS: &[Column] = &[
    number("communicator"),
    text("side"),
    number("member"),
    number("job"),
    number("rank"),
    number("node"),
];

const DATATYPES: &[Column] = &[
    number("call"),
    number("job"),
    number("rank"),
    number("datatype"),
    number("size_bytes"),
    signed("lower_bytes"),
    signed("extent_bytes"),
];

const SITES: &[Column] = &[
    number("site"),
    number("frame"),
    text("file"),
    text("build_id"),
    number("address"),
];

const PROBES: &[Column] = &[
    text("probe"),
    number("node"),
    number("vcpu"),
    number("task"),
    number("thread"),
    number("rank"),
    text("program"),
    number("depth"),
    number("entry_cycles"),
    number("exit_cycles"),
    number("entry_ps"),
    number("exit_ps"),
    text("arguments"),
    text("result"),
    text("within"),
];

impl ExportTable {
    /// All tables.
    pub const ALL: [Self; 8] = [
        Self::Calls,
        Self::Messages,
        Self::Collectives,
        Self::Accesses,
        Self::Communicators,
        Self::Datatypes,
        Self::Sites,
        Self::Probes,
    ];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Calls => "calls",
            Self::Messages => "messages",
            Self::Collectives => "collectives",
            Self::Accesses => "accesses",
            Self::Communicators => "communicators",
            Self::Datatypes => "datatypes",
            Self::Sites => "sites",
            Self::Probes => "probes",
        }
    }

    /// Returns its columns, in order.
    pub fn columns(self) -> &'static [Column] {
        match self {
            Self::Calls => CALLS,
            Self::Messages => MESSAGES,
            Self::Collectives => COLLECTIVES,
            Self::Accesses => ACCESSES,
            Self::Communicators => COMMUNICATORS,
            Self::Datatypes => DATATYPES,
            Self::Sites => SITES,
            Self::Probes => PROBES,
        }
    }
}

//! The InfiniBand network's figures, written at the run's end.
//!
//! `links-ib.csv` has a row for each direction of a link with packets; `up` is away from the link's first end:
//!
//! | column | |
//! |---|---|
//! | `link`, `direction` | the link and its direction |
//! | `packets`, `bytes` | sent, with all headers and checksums |
//! | `busy_ps` | time during which the wire was busy, in picoseconds |
//! | `queue_ps` | time during which packets were ready and could not leave, summed over packets |
//! | `xmit_wait_ps` | time during which the wire was idle and packets waited for credits of the far side |
//!
//! `wire-ib.csv` has a row for each pair of nodes with traffic from the first to the second:
//!
//! | column | |
//! |---|---|
//! | `from`, `to` | the nodes |
//! | `packets`, `bytes` | sent, acknowledgements included |
//! | `payload` | bytes of data of sends, writes and answers to reads |
//!
//! With congestion control, `marks-ib.csv` has a row for each direction of a link with packets:
//!
//! | column | |
//! |---|---|
//! | `link`, `direction` | the link and its direction |
//! | `packets`, `marked` | sent, and of these marked by the switch that sent them |
//! | `longest_queue` | the most bytes that waited on one virtual lane |
//!
//! and `pairs-ib.csv` has a row for each queue pair that met congestion:
//!
//! | column | |
//! |---|---|
//! | `node`, `pair` | the node, and the number of the queue pair; `*` for those beyond 65,536 |
//! | `peer` | the node of its peer; empty for datagrams |
//! | `marked` | marked packets that it received |
//! | `notifications_sent`, `notifications_received` | in acknowledgements and by themselves |
//! | `delay_ps` | time for which its packets waited for its delay, in picoseconds |

use std::fmt::Write;

use belljar_fabric::{Direction, LinkId};
use belljar_lossless::{Lossless, PortFigures};
use belljar_vmm::PairCongestion;

/// Names in a run directory.
pub const INFINIBAND_LINKS_FILE: &str = "links-ib.csv";
/// See [`INFINIBAND_LINKS_FILE`].
pub const INFINIBAND_WIRE_FILE: &str = "wire-ib.csv";
/// See [`INFINIBAND_LINKS_FILE`].
pub const INFINIBAND_MARKS_FILE: &str = "marks-ib.csv";
/// See [`INFINIBAND_LINKS_FILE`].
pub const INFINIBAND_PAIRS_FILE: &str = "pairs-ib.csv";

/// The text of `links-ib.csv`.
pub fn links(network: &Lossless) -> String {
    let columns = "packets,bytes,busy_ps,queue_ps,xmit_wait_ps";
    each_direction(network, columns, |of| {
        let (busy, queue, wait) = (of.busy_ps, of.wait_ps, of.credit_wait_ps);
        format!("{},{},{busy},{queue},{wait}", of.packets, of.bytes)
    })
}

/// The text of `marks-ib.csv`.
pub fn marks(network: &Lossless) -> String {
    each_direction(network, "packets,marked,longest_queue", |of| {
        format!("{},{},{}", of.packets, of.marks, of.longest_queue)
    })
}

/// A table with a row for each direction of a link with packets.
fn each_direction(
    network: &Lossless,
    columns: &str,
    row: impl Fn(&PortFigures) -> String,
) -> String {
    let mut text = format!("link,direction,{columns}\n");
    for (link, figures) in (0..).zip(network.figures()) {
        let name = network.topology().link_name(link);
        for (direction, of) in ["up", "down"].iter().zip(figures) {
            if of.packets > 0 {
                // Writing to a String cannot fail.
                let _ = writeln!(text, "{name},{direction},{}", row(&of));
            }
        }
    }
    text
}

/// The text of `pairs-ib.csv`, from the number of each node and the figures of its queue pairs.
pub fn pairs<'a>(nodes: impl Iterator<Item = (u32, &'a [(u32, PairCongestion)])>) -> String {
    let columns = "node,pair,peer,marked,notifications_sent,notifications_received,delay_ps\n";
    let mut text = columns.to_owned();
    for (node, pairs) in nodes {
        for (number, of) in pairs {
            let pair = match *number {
                u32::MAX => "*".to_owned(),
                number => number.to_string(),
            };
            // Node n has local identifier n + 1.
            let peer = of.peer.checked_sub(1).map(|peer| peer.to_string());
            let peer = peer.unwrap_or_default();
            let (sent, received) = (of.notifications_sent, of.notifications_received);
            let (marked, delay) = (of.marked, of.delay_ps);
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "{node},{pair},{peer},{marked},{sent},{received},{delay}"
            );
        }
    }
    text
}

/// The links that wait for each other's credits in a circle, in words; `None` if every packet will arrive.
pub fn circle(network: &Lossless) -> Option<String> {
    let links = network.circle()?;
    let name = |(link, direction, lane): &(LinkId, Direction, u8)| {
        let way = ["up", "down"][direction.index()];
        let link = network.topology().link_name(*link);
        format!("{link} {way} (virtual lane {lane})")
    };
    let links: Vec<String> = links.iter().map(name).collect();
    Some(format!(
        "packets of the InfiniBand network wait for ever, as links wait for each other's credits in a circle: {}; more virtual lanes (infiniband.lanes) or other routes avoid it",
        links.join(", ")
    ))
}

/// The text of `wire-ib.csv`.
pub fn wire(network: &Lossless) -> String {
    let mut text = "from,to,packets,bytes,payload\n".to_owned();
    for ((from, to), of) in network.traffic() {
        let (packets, bytes, payload) = (of.packets, of.bytes, of.payload);
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{from},{to},{packets},{bytes},{payload}");
    }
    text
}

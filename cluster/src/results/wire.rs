//! Traffic between nodes, as `wire.csv`.
//!
//! A row for each pair of nodes with traffic from the first to the second, in order; written at the run's
//! end:
//!
//! | column | |
//! |---|---|
//! | `from`, `to` | the nodes; `*` for frames to groups, broadcast included |
//! | `frames`, `bytes` | sent by the sender's card onto its link; without preamble, checksum, gap |
//! | `payload` | bytes of data in TCP segments and UDP datagrams |

use std::fmt::Write;

use belljar_fabric::Fabric;

/// Its name in a run directory.
pub const WIRE_FILE: &str = "wire.csv";

/// The file's text.
pub fn table(fabric: &Fabric) -> String {
    let mut text = "from,to,frames,bytes,payload\n".to_owned();
    for ((from, to), count) in fabric.wire() {
        let to = to.map_or_else(|| "*".to_owned(), |to| to.to_string());
        let (frames, bytes, payload) = (count.frames, count.bytes, count.payload);
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{from},{to},{frames},{bytes},{payload}");
    }
    text
}

#[cfg(test)]
mod tests {
    use belljar_fabric::{LinkSpec, Mac, SwitchSpec, Topology};
    use belljar_sim::{Span, Time};

    use super::*;

    #[test]
    fn a_row_tells_what_a_node_sent_another() {
        let link = LinkSpec {
            bandwidth: 1_000_000_000,
            latency: Span::from_ps(1_000_000),
        };
        let switch = SwitchSpec {
            latency: Span::ZERO,
            queue_bytes: 1 << 20,
        };
        let topology = Topology::star(3, link, switch).unwrap();
        let mut fabric = Fabric::new(topology);
        for (sequence, to) in [Mac::of_host(0), Mac([0xff; 6]), Mac::of_host(0)]
            .iter()
            .enumerate()
        {
            let frame = [&to.0[..], &[0; 54]].concat();
            let time = Time::from_ps(sequence as u64);
            fabric.send(time, 2, sequence as u64, frame.into());
        }
        fabric.advance(Time::MAX);
        let rows = "from,to,frames,bytes,payload\n2,*,1,60,0\n2,0,2,120,0\n";
        assert_eq!(table(&fabric), rows);
    }
}

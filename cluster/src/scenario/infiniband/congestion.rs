//! Congestion control of the InfiniBand network: the table `infiniband.congestion`.
//!
//! Keys of both methods are in one table, so that `--set infiniband.congestion.control` alone compares them.

use belljar_sim::Span;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::scenario::quantity::{Bandwidth, Bytes, Duration};

/// Congestion control of switches and cards.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct CongestionTable {
    /// Method: `none`, InfiniBand's own (`iba`), or `dcqcn`.
    pub control: ControlName,
    /// IBA: how early switches mark packets, from 1 (a nearly full buffer) to 15 (a sixteenth of a buffer).
    pub threshold: u8,
    /// IBA: packets between two marks.
    pub marking_rate: u16,
    /// IBA: the shortest packet that is marked.
    pub packet_size: Bytes,
    /// IBA: steps in the table of delays for a notification.
    pub ccti_increase: u16,
    /// IBA: time after which a queue pair goes back one step.
    pub ccti_timer: Duration,
    /// IBA: the least step.
    pub ccti_min: u16,
    /// IBA: the delay after a packet at each step, in eighths of the packet's own time on the link; 0 to 127 when absent.
    pub cct: Option<Vec<u32>>,
    /// DCQCN: bytes of a queue up to which no packet is marked.
    pub kmin: Bytes,
    /// DCQCN: bytes of a queue from which all packets are marked.
    pub kmax: Bytes,
    /// DCQCN: probability of a mark just below `kmax`.
    pub pmax: f64,
    /// DCQCN: least time between two notifications of a flow.
    pub cnp_interval: Duration,
    /// DCQCN: weight of the newest notification in the estimate of congestion.
    pub gain: f64,
    /// DCQCN: time without notifications after which this estimate falls.
    pub alpha_timer: Duration,
    /// DCQCN: time after which the rate rises.
    pub rate_timer: Duration,
    /// DCQCN: bytes after which the rate rises.
    pub byte_counter: Bytes,
    /// DCQCN: rises towards the last rate before a notification, until the target itself rises.
    pub recovery_steps: u32,
    /// DCQCN: step of the target.
    pub additive_increase: Bandwidth,
    /// DCQCN: step of the target when timer and counter have both had more than these rises.
    pub hyper_increase: Bandwidth,
    /// DCQCN: the least rate.
    pub least_rate: Bandwidth,
}

impl Default for CongestionTable {
    fn default() -> Self {
        Self {
            control: ControlName::None,
            threshold: 15,
            marking_rate: 10,
            packet_size: Bytes(512),
            ccti_increase: 1,
            ccti_timer: Duration(Span::from_ns(153_600)),
            ccti_min: 0,
            cct: None,
            kmin: Bytes(5_000),
            kmax: Bytes(200_000),
            pmax: 0.01,
            cnp_interval: Duration(Span::from_us(50)),
            gain: 0.003_906_25,
            alpha_timer: Duration(Span::from_us(55)),
            rate_timer: Duration(Span::from_us(55)),
            byte_counter: Bytes(10_000_000),
            recovery_steps: 5,
            additive_increase: Bandwidth(40_000_000),
            hyper_increase: Bandwidth(400_000_000),
            least_rate: Bandwidth(10_000_000),
        }
    }
}

/// Methods of congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ControlName {
    /// No packet is marked.
    None,
    /// InfiniBand's own: a table of delays.
    Iba,
    /// DCQCN: a rate.
    Dcqcn,
}

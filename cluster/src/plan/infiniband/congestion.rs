//! Congestion control of the InfiniBand network, with its limits.
//!
//! Timers are at least a microsecond long, so that their effects over a run can be computed when they are needed. Called by
//! [`InfinibandPlan`](super::InfinibandPlan).

use std::sync::Arc;

use belljar_congestion::{
    CongestionControl, DcqcnControl, IbaControl, RateSettings, TableSettings,
};
use belljar_sim::{Seed, Span};

use crate::plan::error::PlanError;
use crate::scenario::{CongestionTable, ControlName};

/// Entries of the table of delays when the scenario has none: 0 to 127 eighths.
const ENTRIES: u32 = 128;
/// The most entries: of 128 blocks of 64 entries.
const MOST_ENTRIES: usize = 8_192;
/// The most eighths of a packet's time: 2^14 - 1 packets.
const LONGEST_DELAY: u32 = 8 * ((1 << 14) - 1);
/// Limits of timers.
const SHORTEST_TIMER: Span = Span::from_us(1);
const LONGEST_TIMER: Span = Span::from_ms(1_000);
/// Limits of rates and of their steps, in bits per second.
const LEAST_RATE: u64 = 1_000_000;
/// Limits of counters of bytes.
const MOST_BYTES: u64 = 1 << 40;
/// One, as a fraction of 2^32.
const ONE: f64 = 4_294_967_296.0;

/// The control of a network with this much buffer for each virtual lane; `None` without control.
///
/// # Errors
/// If a key is out of range.
pub(super) fn resolve(
    table: &CongestionTable,
    buffer: u64,
    seed: Seed,
) -> Result<Option<Arc<CongestionControl>>, PlanError> {
    let control = match table.control {
        ControlName::None => return Ok(None),
        ControlName::Iba => CongestionControl::Iba(iba(table, buffer)?),
        ControlName::Dcqcn => CongestionControl::Dcqcn(dcqcn(table, seed)?),
    };
    Ok(Some(Arc::new(control)))
}

/// In words, behind the network's.
pub(super) fn words(control: Option<&CongestionControl>) -> &'static str {
    match control {
        None => "",
        Some(CongestionControl::Iba(_)) => ", congestion control of InfiniBand",
        Some(CongestionControl::Dcqcn(_)) => ", congestion control DCQCN",
    }
}

fn iba(table: &CongestionTable, buffer: u64) -> Result<IbaControl, PlanError> {
    let delays = table.cct.clone().unwrap_or((0..ENTRIES).collect());
    check(
        "infiniband.congestion.threshold",
        (1..=15).contains(&table.threshold),
        table.threshold,
        "1 to 15; control = \"none\" marks no packet",
    )?;
    check(
        "infiniband.congestion.packet-size",
        table.packet_size.0 <= 4_096,
        table.packet_size,
        "0 to 4096 B, the largest packet's data",
    )?;
    check(
        "infiniband.congestion.ccti-increase",
        table.ccti_increase > 0,
        table.ccti_increase,
        "1 or more",
    )?;
    check_timer("infiniband.congestion.ccti-timer", table.ccti_timer.0)?;
    let is_table = (1..=MOST_ENTRIES).contains(&delays.len())
        && delays.iter().all(|delay| *delay <= LONGEST_DELAY);
    check(
        "infiniband.congestion.cct",
        is_table,
        format!("{delays:?}").chars().take(80).collect::<String>(),
        "1 to 8192 entries of at most 131064 eighths of a packet's time",
    )?;
    check(
        "infiniband.congestion.ccti-min",
        usize::from(table.ccti_min) < delays.len(),
        table.ccti_min,
        "an index of the table of delays, infiniband.congestion.cct, which has 128 entries by default",
    )?;
    Ok(IbaControl {
        threshold: buffer / 16 * u64::from(16 - table.threshold),
        shortest: table.packet_size.0,
        between: u32::from(table.marking_rate),
        table: TableSettings {
            increase: table.ccti_increase,
            timer: table.ccti_timer.0,
            least: table.ccti_min,
            delays,
        },
    })
}

fn dcqcn(table: &CongestionTable, seed: Seed) -> Result<DcqcnControl, PlanError> {
    check(
        "infiniband.congestion.kmax",
        table.kmin.0 < table.kmax.0 && table.kmax.0 <= MOST_BYTES,
        table.kmax,
        "more than kmin, at most 1 TiB",
    )?;
    check_share("infiniband.congestion.pmax", table.pmax, 0.0)?;
    check_share("infiniband.congestion.gain", table.gain, 1.0 / 65_536.0)?;
    check_timer("infiniband.congestion.cnp-interval", table.cnp_interval.0)?;
    check_timer("infiniband.congestion.alpha-timer", table.alpha_timer.0)?;
    check_timer("infiniband.congestion.rate-timer", table.rate_timer.0)?;
    check(
        "infiniband.congestion.byte-counter",
        (8_192..=MOST_BYTES).contains(&table.byte_counter.0),
        table.byte_counter,
        "8 KiB to 1 TiB",
    )?;
    let rates = [
        (
            "infiniband.congestion.additive-increase",
            table.additive_increase,
        ),
        ("infiniband.congestion.hyper-increase", table.hyper_increase),
        ("infiniband.congestion.least-rate", table.least_rate),
    ];
    for (key, rate) in rates {
        check(key, rate.0 >= LEAST_RATE, rate, "1 Mb/s or more")?;
    }
    Ok(DcqcnControl {
        low: table.kmin.0,
        high: table.kmax.0,
        probability: fraction(table.pmax),
        seed,
        interval: table.cnp_interval.0,
        rate: RateSettings {
            gain: fraction(table.gain),
            alpha_timer: table.alpha_timer.0,
            timer: table.rate_timer.0,
            bytes: table.byte_counter.0,
            recovery: table.recovery_steps,
            additive: table.additive_increase.0,
            hyper: table.hyper_increase.0,
            least: table.least_rate.0,
        },
    })
}

/// A share in units of 2^-32.
fn fraction(share: f64) -> u64 {
    (share * ONE).round() as u64
}

fn check(
    key: &'static str,
    holds: bool,
    value: impl std::fmt::Display,
    limits: &'static str,
) -> Result<(), PlanError> {
    if holds {
        return Ok(());
    }
    Err(PlanError::Range {
        key,
        value: value.to_string(),
        limits,
    })
}

fn check_share(key: &'static str, share: f64, least: f64) -> Result<(), PlanError> {
    let holds = (least..=1.0).contains(&share);
    let limits = if least > 0.0 {
        "1/65536 to 1"
    } else {
        "0 to 1"
    };
    check(key, holds, share, limits)
}

fn check_timer(key: &'static str, timer: Span) -> Result<(), PlanError> {
    let holds = (SHORTEST_TIMER..=LONGEST_TIMER).contains(&timer);
    check(key, holds, timer, "1 us to 1 s")
}

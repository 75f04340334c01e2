//! Prediction of runs on many hosts from runs on few.
//!
//! A *span* is the virtual time that one host can grant another: the minimum latency between nodes of different
//! hosts. For each span a host
//!
//! | | takes | known by |
//! |---|---|---|
//! | runs its nodes | nodes of a thread x span x clock / speed | a run on one host |
//! | waits for the others | `wait` + `trips` x round trip + `uneven` x time of nodes | fitted |
//! | sends messages to all but the first | hosts x (`message_sent` + `message` / threads) | measured alone |
//! | computes bounds of all nodes of the run | nodes of the run x (`node_round` + `node_told`) | measured alone |
//! | forwards all frames of the run | frames x (`frame` + `frame_heard`) | measured alone |
//! | encrypts and decrypts them | bytes x `byte` / threads | measured alone |
//!
//! Runs on few hosts have a fitted `peer` instead of the row about messages, as all hosts share the processors
//! of one machine there.

use anyhow::{Context, Result};

use super::fit::{Measurement, least_squares};

/// Virtual clock of the nodes, in MHz.
pub(super) const CLOCK: f64 = 2000.0;
/// Bytes of a full-length frame.
const FRAME: f64 = 1514.0;

/// A measurement of runs on two hosts or more.
pub(super) struct Measured {
    /// Hosts.
    pub(super) hosts: u32,
    /// Round trip between them, in microseconds.
    pub(super) round_trip: f64,
    /// Host time of a span, in microseconds.
    pub(super) span: f64,
    /// The part of a host's nodes in that, from a run on one host.
    pub(super) work: f64,
}

/// Separately measured costs (`cluster/benches/costs.rs`), in ns; of messages in us.
pub(super) struct MeasuredCosts {
    pub(super) node_round: f64,
    pub(super) node_told: f64,
    pub(super) frame: f64,
    pub(super) frame_heard: f64,
    pub(super) byte: f64,
    pub(super) message: f64,
    pub(super) message_sent: f64,
}

impl MeasuredCosts {
    /// From lines `NAME VALUE UNIT`.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let value = |name: &str| {
            let mut lines = text.lines().map(str::split_ascii_whitespace);
            let mut words = lines.find_map(|mut words| (words.next()? == name).then_some(words));
            let value = words.as_mut().and_then(|words| words.next()?.parse().ok());
            value.with_context(|| format!("the bench of costs does not tell {name}"))
        };
        Ok(Self {
            node_round: value("node-round")?,
            node_told: value("node-told")?,
            frame: value("frame-fat-tree")?,
            frame_heard: value("frame-heard")?,
            byte: value("byte")?,
            message: value("message")?,
            message_sent: value("message-sent")?,
        })
    }
}

/// Fitted costs of a span, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Fit {
    pub(super) wait: f64,
    pub(super) trips: f64,
    pub(super) peer: f64,
    /// For each microsecond of the host's nodes.
    pub(super) uneven: f64,
}

impl Fit {
    /// Fits the time of measured spans without work; longer spans have less weight.
    pub(super) fn of<'a>(measured: impl Iterator<Item = &'a Measured>) -> Result<Self> {
        let row = |one: &Measured| Measurement {
            of: [1.0, one.round_trip, peers(one.hosts), one.work],
            measured: one.span - one.work,
            uncertainty: one.span,
        };
        let rows: Vec<Measurement<4>> = measured.map(row).collect();
        let [wait, trips, peer, uneven] =
            least_squares(&rows).context("these measurements tell nothing of hosts")?;
        Ok(Self {
            wait,
            trips,
            peer,
            uneven,
        })
    }

    /// The waiting of one machine's hosts for each other in a span, in microseconds.
    pub(super) fn waits(&self, hosts: u32, round_trip: f64, work: f64) -> f64 {
        self.wait + self.trips * round_trip + self.peer * peers(hosts) + self.uneven * work
    }

    /// The error of the fit for a measured span, as a share of it.
    pub(super) fn residual(&self, one: &Measured) -> f64 {
        (one.work + self.waits(one.hosts, one.round_trip, one.work)) / one.span - 1.0
    }
}

/// Number of other hosts without the first.
fn peers(hosts: u32) -> f64 {
    f64::from(hosts.saturating_sub(2))
}

/// A hypothetical run.
#[derive(Clone, Copy)]
pub(super) struct Large {
    pub(super) nodes: u32,
    pub(super) hosts: u32,
    /// Threads that run nodes on each host.
    pub(super) threads: u32,
    /// Minimum latency between nodes of different hosts, in microseconds.
    pub(super) lookahead: f64,
    /// Round trip between hosts, in microseconds.
    pub(super) round_trip: f64,
    /// Full-length frames that each node sends in a second of virtual time.
    pub(super) frames: f64,
}

/// Host times of a span, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) work: f64,
    pub(super) waits: f64,
    pub(super) nodes: f64,
    pub(super) frames: f64,
}

impl Span {
    pub(super) fn total(&self) -> f64 {
        self.work + self.waits + self.nodes + self.frames
    }
}

/// The model.
pub(super) struct Model {
    pub(super) fit: Fit,
    pub(super) costs: MeasuredCosts,
    /// Million instructions of a thread per second.
    pub(super) speed: f64,
}

impl Model {
    /// Predicts a span of `run`.
    pub(super) fn span(&self, run: &Large) -> Span {
        let (nodes, threads) = (f64::from(run.nodes), f64::from(run.threads));
        // For the host and the thread with most nodes; a node has one thread at most.
        let turns = f64::from(run.nodes.div_ceil(run.hosts).div_ceil(run.threads));
        let sent = nodes * run.frames * run.lookahead / 1e6;
        let costs = &self.costs;
        let work = turns * run.lookahead * CLOCK / self.speed;
        let (told, heard, sealed, waits) = if run.hosts > 1 {
            let speaks = costs.message_sent + costs.message / threads;
            let waits = self.fit.waits(2, run.round_trip, work) + peers(run.hosts) * speaks;
            let sealed = FRAME * costs.byte / threads;
            (costs.node_told, costs.frame_heard, sealed, waits)
        } else {
            (0.0, 0.0, 0.0, 0.0)
        };
        Span {
            work,
            waits,
            nodes: nodes * (costs.node_round + told) / 1e3,
            frames: sent * (costs.frame + heard + sealed) / 1e3,
        }
    }

    /// The speed of `run` relative to the same run on one of its hosts with enough memory.
    pub(super) fn gain(&self, run: &Large) -> f64 {
        let alone = Large { hosts: 1, ..*run };
        self.span(&alone).total() / self.span(run).total()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model() -> Model {
        Model {
            fit: Fit {
                wait: 40.0,
                trips: 0.5,
                peer: 10.0,
                uneven: 0.1,
            },
            costs: MeasuredCosts::parse(
                "node-round 2.0 ns\nmessage 40 us\nmessage-sent 2 us\nnode-told 20 ns\n\
                 frame-fat-tree 900 ns\nframe-heard 100 ns\nbyte 2 ns",
            )
            .unwrap(),
            speed: 1000.0,
        }
    }

    const RUN: Large = Large {
        nodes: 1000,
        hosts: 10,
        threads: 5,
        lookahead: 10.0,
        round_trip: 20.0,
        frames: 1000.0,
    };

    #[test]
    fn a_span_is_the_sum_of_what_a_host_does_in_it() {
        let span = model().span(&RUN);
        // 100 nodes of 20,000 instructions by five threads.
        assert!((span.work - 400.0).abs() < 1e-9, "{span:?}");
        assert!(
            (span.waits - (40.0 + 10.0 + 40.0 + 8.0 * (2.0 + 8.0))).abs() < 1e-9,
            "{span:?}"
        );
        assert!((span.nodes - 22.0).abs() < 1e-9, "{span:?}");
        // Ten frames: 1 us each, and 1,514 bytes by five threads.
        assert!((span.frames - (10.0 + 6.056)).abs() < 1e-9, "{span:?}");
    }

    #[test]
    fn one_host_waits_for_nobody() {
        let span = model().span(&Large { hosts: 1, ..RUN });
        assert_eq!(span.waits, 0.0);
        assert!((span.nodes - 2.0).abs() < 1e-9, "{span:?}");
        assert!((span.frames - 9.0).abs() < 1e-9, "{span:?}");
        let gain = model().gain(&RUN);
        let expected = 4011.0 / (400.0 + 170.0 + 22.0 + 16.056);
        assert!((gain - expected).abs() < 1e-9, "{gain}");
    }

    #[test]
    fn a_fit_finds_what_runs_were_made_with() {
        let fit = model().fit;
        let made = |(hosts, round_trip, work): (u32, f64, f64)| Measured {
            hosts,
            round_trip,
            span: work + fit.waits(hosts, round_trip, work),
            work,
        };
        let runs = [(2, 20.0, 50.0), (2, 250.0, 500.0), (3, 20.0, 900.0)];
        let measured = [&runs[..], &[(4, 120.0, 50.0), (4, 20.0, 500.0)]].concat();
        let measured: Vec<Measured> = measured.into_iter().map(made).collect();
        let found = Fit::of(measured.iter()).unwrap();
        for one in &measured {
            assert!(found.residual(one).abs() < 1e-9);
        }
        assert!((found.peer - fit.peer).abs() < 1e-6, "{found:?}");
    }

    #[test]
    fn missing_costs_are_named() {
        let error = MeasuredCosts::parse("node-round 2 ns\n")
            .err()
            .unwrap()
            .to_string();
        assert!(error.contains("node-told"), "{error}");
    }
}

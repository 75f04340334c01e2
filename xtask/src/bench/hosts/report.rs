//! Output about hosts: tables, JSON, lines of a chart.
//!
//! Measurements are shown next to the model's predictions for the same settings. Called by `bench
//! hosts`.

use super::model::{Large, Measured, Model};
use super::{
    GROWTH, LARGE, LARGE_FRAMES, LARGE_LOOKAHEADS, LARGE_ROUND_TRIPS, LATE, LOOKAHEADS, NODES,
    Point,
};
use crate::bench::plot::ChartLine;

pub(super) fn print_measured(points: &[Point], measured: &[(&Point, Measured)], model: &Model) {
    println!(
        "\nOne host, one thread, {NODES} busy nodes: {:.0} million instructions/s",
        super::speed(points)
    );
    println!("| span | one host, us for a span |\n|---|---|");
    for lookahead in LOOKAHEADS {
        println!(
            "| {lookahead} us | {:.1} |",
            super::alone(points, lookahead)
        );
    }
    println!(
        "\n| span | round trip, asked | measured | hosts | us for a span | of that work | not work | model | off by | times one host |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for (point, of) in measured {
        let waits = model.fit.waits(of.hosts, of.round_trip, of.work);
        println!(
            "| {} us | {} | {:.0} us | {} | {:.1} | {:.1} | {:.1} | {waits:.1} | {:+.0} % | {:.2} |",
            point.lookahead,
            point
                .asked
                .map_or("links".to_owned(), |late| format!("{} us", late * 2.0)),
            of.round_trip,
            of.hosts,
            of.span,
            of.work,
            of.span - of.work,
            model.fit.residual(of) * 100.0,
            point.gain(),
        );
    }
}

pub(super) fn print_model(measured: &[(&Point, Measured)], model: &Model) {
    let fit = model.fit;
    println!(
        "\nFitted: a span takes work + {:.1} us + {:.2} x round trip + {:.1} us x (hosts - 2) + {:.2} x work",
        fit.wait, fit.trips, fit.peer, fit.uneven
    );
    let mut off: Vec<f64> = measured
        .iter()
        .map(|(_, of)| model.fit.residual(of).abs() * 100.0)
        .collect();
    let worst = off.iter().copied().fold(0.0, f64::max);
    println!(
        "The fit is off by {:.0} % of a span in the median, {worst:.0} % at worst",
        super::median(&mut off)
    );
    let crowded = fit.peer * f64::from(LARGE.hosts - 2);
    println!(
        "On one machine {} hosts would take {crowded:.0} us for speaking to each other",
        LARGE.hosts
    );
    println!(
        "\nExtrapolated to {} nodes on {} hosts with {} threads each of {} million instructions/s, by a span:",
        LARGE.nodes, LARGE.hosts, LARGE.threads, model.speed
    );
    println!(
        "| span | round trip | frames/s of a node | nodes run | hosts wait | nodes reckoned with | frames | all | slower than real time | times one host |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for run in large() {
        let span = model.span(&run);
        println!(
            "| {} us | {} us | {} | {:.0} us | {:.0} us | {:.0} us | {:.0} us | {:.0} us | {:.0} | {:.1} |",
            run.lookahead,
            run.round_trip,
            run.frames,
            span.work,
            span.waits,
            span.nodes,
            span.frames,
            span.total(),
            span.total() / run.lookahead,
            model.gain(&run)
        );
    }
    print_growth(model);
}

/// All settings; with frames between nodes only at the middle round trip.
fn large() -> impl Iterator<Item = Large> {
    let settings = LARGE_LOOKAHEADS.into_iter().flat_map(|lookahead| {
        let trips = LARGE_ROUND_TRIPS.into_iter();
        trips.flat_map(move |trip| LARGE_FRAMES.map(|frames| (lookahead, trip, frames)))
    });
    let middle = LARGE_ROUND_TRIPS[1];
    let wanted = settings.filter(move |(_, trip, frames)| *frames == 0.0 || *trip == middle);
    wanted.map(|(lookahead, round_trip, frames)| Large {
        lookahead,
        round_trip,
        frames,
        ..LARGE
    })
}

fn print_growth(model: &Model) {
    println!(
        "\nHow it grows: times one host, nodes that only compute, {} us round trip:",
        LARGE_ROUND_TRIPS[1]
    );
    let heads = GROWTH.map(|hosts| format!(" {hosts} |")).concat();
    println!(
        "| nodes | span |{heads}\n|---|---|{}",
        "---|".repeat(GROWTH.len())
    );
    for nodes in [1_000, LARGE.nodes] {
        for lookahead in LARGE_LOOKAHEADS {
            let gain = |hosts| {
                let run = Large {
                    nodes,
                    hosts,
                    lookahead,
                    round_trip: LARGE_ROUND_TRIPS[1],
                    ..LARGE
                };
                format!(" {:.2} |", model.gain(&run))
            };
            println!("| {nodes} | {lookahead} us |{}", GROWTH.map(gain).concat());
        }
    }
}

/// All measurements, as JSON.
pub(super) fn json(points: &[Point], model: &Model) -> String {
    let rows: Vec<String> = points
        .iter()
        .map(|point| {
            format!(
                "    {{\"lookahead_us\": {}, \"hosts\": {}, \"late_us\": {}, \"round_trip_us\": {:.2}, \"span_us\": {:.2}, \"gain\": {:.4}}}",
                point.lookahead,
                point.hosts,
                point.asked.map_or("null".to_owned(), |late| late.to_string()),
                point.round_trip(),
                point.span(),
                point.gain()
            )
        })
        .collect();
    format!(
        "{{\n  \"nodes\": {NODES},\n  \"mips\": {:.1},\n  \"fit\": {{\"wait_us\": {:.3}, \"trips\": {:.4}, \"peer_us\": {:.3}, \"uneven\": {:.4}}},\n  \"points\": [\n{}\n  ]\n}}\n",
        super::speed(points),
        model.fit.wait,
        model.fit.trips,
        model.fit.peer,
        model.fit.uneven,
        rows.join(",\n")
    )
}

/// Host time of a span without work, over the round trip, for each number of hosts, at the shortest
/// span.
pub(super) fn lines(measured: &[(&Point, Measured)]) -> Vec<ChartLine> {
    let lookahead = LOOKAHEADS[0];
    let line = |hosts: u32| ChartLine {
        name: format!("{hosts} hosts"),
        points: LATE
            .iter()
            .filter_map(|late| {
                let is_it = |point: &Point| {
                    (point.lookahead, point.hosts, point.asked) == (lookahead, hosts, *late)
                };
                let (_, of) = measured.iter().find(|(point, _)| is_it(point))?;
                Some((of.round_trip, of.span))
            })
            .collect(),
    };
    (2..=super::HOSTS).map(line).collect()
}

//! Charts as SVG.
//!
//! The same points give the same file, so a chart in the documentation changes only with its figures.
//! Called by the benchmarks `engine`, `hosts` and `scale`.

use plotters::prelude::*;

/// Bars with each kernel's time relative to the bare processor, and lines for the goals of the median
/// and of the maximum.
pub(super) fn svg(points: &[(String, f64)]) -> String {
    let mut text = String::new();
    if draw(&mut text, points).is_err() {
        text.clear();
    }
    text
}

fn draw(into: &mut String, points: &[(String, f64)]) -> Result<(), Box<dyn std::error::Error>> {
    let root = SVGBackend::with_string(into, (900, 420)).into_drawing_area();
    root.fill(&WHITE)?;
    let top = points.iter().map(|point| point.1).fold(2.7, f64::max) * 1.05;
    let count = points.len().max(1);
    let mut chart = ChartBuilder::on(&root)
        .caption(
            "Time in a guest over time on the bare processor",
            ("sans-serif", 18),
        )
        .margin(12)
        .x_label_area_size(30)
        .y_label_area_size(90)
        .build_cartesian_2d(0.0..top, (0..count - 1).into_segmented())?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .y_labels(count)
        .y_label_formatter(&|value| match value {
            SegmentValue::CenterOf(index) => points
                .get(*index)
                .map_or(String::new(), |point| point.0.clone()),
            _ => String::new(),
        })
        .draw()?;
    chart.draw_series(points.iter().enumerate().map(|(index, point)| {
        let corners = [
            (0.0, SegmentValue::Exact(index)),
            (point.1, SegmentValue::Exact(index + 1)),
        ];
        let mut bar = Rectangle::new(corners, RGBColor(60, 110, 170).filled());
        bar.set_margin(4, 4, 0, 0);
        bar
    }))?;
    for goal in [1.0, 1.4, 2.5] {
        let line = [
            (goal, SegmentValue::Exact(0)),
            (goal, SegmentValue::Exact(count)),
        ];
        chart.draw_series(LineSeries::new(line, RED.mix(0.5)))?;
    }
    root.present()?;
    Ok(())
}

/// Points joined by a line.
pub(super) struct ChartLine {
    pub(super) name: String,
    pub(super) points: Vec<(f64, f64)>,
}

/// Texts of a line chart.
struct Words {
    caption: &'static str,
    across: &'static str,
    up: &'static str,
}

/// Host time of a span over the round trip between hosts, both in microseconds.
pub(super) fn lines(lines: &[ChartLine]) -> String {
    let words = Words {
        caption: "Host time for 10 us of virtual time",
        across: "round trip between hosts, us",
        up: "us",
    };
    drawn(lines, &words)
}

/// The cost of a node over the number of nodes, relative to the first one.
pub(super) fn growth(lines: &[ChartLine]) -> String {
    let words = Words {
        caption: "Host time for a node's work over that with the fewest nodes",
        across: "nodes",
        up: "times",
    };
    drawn(lines, &words)
}

fn drawn(lines: &[ChartLine], words: &Words) -> String {
    let mut text = String::new();
    if draw_lines(&mut text, lines, words).is_err() {
        text.clear();
    }
    text
}

fn draw_lines(
    into: &mut String,
    lines: &[ChartLine],
    words: &Words,
) -> Result<(), Box<dyn std::error::Error>> {
    const COLOURS: [RGBColor; 3] = [RGBColor(60, 110, 170), RED, BLACK];
    let root = SVGBackend::with_string(into, (900, 420)).into_drawing_area();
    root.fill(&WHITE)?;
    let points = || lines.iter().flat_map(|line| &line.points);
    let right = points().map(|point| point.0).fold(1.0, f64::max) * 1.05;
    let top = points().map(|point| point.1).fold(1.0, f64::max) * 1.05;
    let mut chart = ChartBuilder::on(&root)
        .caption(words.caption, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d(0.0..right, 0.0..top)?;
    chart
        .configure_mesh()
        .x_desc(words.across)
        .y_desc(words.up)
        .draw()?;
    for (line, colour) in lines.iter().zip(COLOURS.iter().cycle()) {
        let drawn = LineSeries::new(line.points.clone(), colour).point_size(3);
        let of = chart.draw_series(drawn)?;
        of.label(line.name.clone())
            .legend(|(x, y)| PathElement::new([(x, y), (x + 20, y)], *colour));
    }
    chart
        .configure_series_labels()
        .background_style(WHITE)
        .draw()?;
    root.present()?;
    Ok(())
}

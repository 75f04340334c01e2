//! Pictures of a simulation: jobs on hosts over time, and loads of links.
//!
//! They are SVG with one shape for each stretch of consecutive hosts. Jobs of the same name have the same colour. Called by
//! `simulate`.

use std::collections::BTreeMap;
use std::io::Write;
use std::ops::Range;

use anyhow::{Context, Result};
use belljar_files::{Folder, OutputFile};
use belljar_simulate::{Job, Simulated};
use plotters::prelude::*;

/// Width and height of a picture, in points.
const SIZE: (u32, u32) = (1000, 600);

/// Maximum number of shapes of a picture: browsers are slow with more.
const MOST_SHAPES: usize = 50_000;

/// Maximum number of points of a line.
const MOST_POINTS: usize = 4000;

/// Colours that people with colour blindness can distinguish (Wong 2011).
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(213, 94, 0),
    RGBColor(240, 228, 66),
];

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

/// A Gantt chart: hosts from bottom to top, time from left to right.
pub(super) fn gantt(folder: &Folder, hosts: u32, jobs: &[Job], of: &Simulated) -> Result<()> {
    const NAME: &str = "gantt.svg";
    let path = folder.path().join(NAME);
    let failed = || format!("cannot draw {}", path.display());
    let mut picture = String::new();
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    for job in jobs {
        let next = names.len();
        names.entry(&job.name).or_insert(next);
    }
    let root = SVGBackend::with_string(&mut picture, SIZE).into_drawing_area();
    let mut chart = axes(&root, of, f64::from(hosts), "hosts").with_context(failed)?;
    let mut shapes = 0;
    for (name, number) in &names {
        let colour = COLOURS[number % COLOURS.len()];
        let own = jobs
            .iter()
            .zip(&of.jobs)
            .filter(|(job, _)| *job.name == **name);
        let boxes = own.filter_map(|(_, outcome)| {
            let (start, end) = (outcome.start?, outcome.end.unwrap_or(of.end));
            Some((seconds(start), seconds(end), stretches(&outcome.hosts)))
        });
        let boxes = boxes.flat_map(|(start, end, stretches)| {
            stretches
                .into_iter()
                .map(move |hosts| [(start, f64::from(hosts.start)), (end, f64::from(hosts.end))])
        });
        let boxes: Vec<[(f64, f64); 2]> = boxes.collect();
        shapes += boxes.len();
        if shapes > MOST_SHAPES {
            warning!("{} has the first {MOST_SHAPES} shapes only", path.display());
            break;
        }
        let inner = boxes
            .iter()
            .map(|it| Rectangle::new(*it, colour.mix(0.7).filled()));
        let series = chart.draw_series(inner).with_context(failed)?;
        series.label(*name).legend(move |(x, y)| {
            Rectangle::new([(x, y - 5), (x + 10, y + 5)], colour.mix(0.7).filled())
        });
        let borders = boxes
            .iter()
            .map(|it| Rectangle::new(*it, BLACK.stroke_width(1)));
        chart.draw_series(borders).with_context(failed)?;
    }
    legend(&mut chart).with_context(failed)?;
    root.present().with_context(failed)?;
    drop(chart);
    drop(root);
    keep(folder, NAME, &picture)
}

/// Consecutive hosts.
fn stretches(hosts: &[u32]) -> Vec<Range<u32>> {
    let mut sorted = hosts.to_vec();
    sorted.sort_unstable();
    let mut all: Vec<Range<u32>> = Vec::new();
    for host in sorted {
        match all.last_mut() {
            Some(last) if last.end == host => last.end += 1,
            _ => all.push(host..host + 1),
        }
    }
    all
}

/// Loads of links over time: the busiest link, and the mean of all.
pub(super) fn loads(folder: &Folder, of: &Simulated) -> Result<()> {
    const NAME: &str = "loads.svg";
    let failed = || format!("cannot draw {}", folder.path().join(NAME).display());
    let mut picture = String::new();
    let gigabits = |bits: f64| bits / 1e9;
    let most = of.loads.iter().map(|load| load.maximum).max().unwrap_or(0);
    let most = gigabits(most as f64).max(1e-9) * 1.05;
    let root = SVGBackend::with_string(&mut picture, SIZE).into_drawing_area();
    let mut chart = axes(&root, of, most, "Gb/s").with_context(failed)?;
    let every = of.loads.len().div_ceil(MOST_POINTS).max(1);
    for (number, name) in ["busiest link", "mean of all links"]
        .into_iter()
        .enumerate()
    {
        let colour = COLOURS[number];
        let mut points: Vec<(f64, f64)> = Vec::new();
        for load in of.loads.iter().step_by(every) {
            let value = [load.maximum as f64, load.mean][number];
            // A load stays until it changes.
            if let Some((_, before)) = points.last().copied() {
                points.push((seconds(load.time), before));
            }
            points.push((seconds(load.time), gigabits(value)));
        }
        let line = LineSeries::new(points, colour.stroke_width(2));
        let series = chart.draw_series(line).with_context(failed)?;
        series
            .label(name)
            .legend(move |(x, y)| Rectangle::new([(x, y - 1), (x + 10, y + 1)], colour.filled()));
    }
    legend(&mut chart).with_context(failed)?;
    root.present().with_context(failed)?;
    drop(chart);
    drop(root);
    keep(folder, NAME, &picture)
}

/// Writes a picture.
fn keep(folder: &Folder, name: &str, picture: &str) -> Result<()> {
    let mut file = OutputFile::create_in(folder, name)?;
    file.write_all(picture.as_bytes())?;
    Ok(file.finish()?)
}

type Chart<'a> = ChartContext<
    'a,
    SVGBackend<'a>,
    Cartesian2d<plotters::coord::types::RangedCoordf64, plotters::coord::types::RangedCoordf64>,
>;

type Failed<'a> = DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>;

/// Axes of a picture: simulated seconds on the x axis, and a named quantity with a maximum on the y axis.
fn axes<'a>(
    root: &DrawingArea<SVGBackend<'a>, plotters::coord::Shift>,
    of: &Simulated,
    most: f64,
    name: &str,
) -> Result<Chart<'a>, Failed<'a>> {
    root.fill(&WHITE)?;
    let end = seconds(of.end).max(1e-9);
    let mut chart = ChartBuilder::on(root)
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(56)
        .build_cartesian_2d(0.0..end, 0.0..most)?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .x_desc("seconds")
        .y_desc(name)
        .draw()?;
    Ok(chart)
}

fn legend<'a>(chart: &mut Chart<'a>) -> Result<(), Failed<'a>> {
    let mut labels = chart.configure_series_labels();
    let labels = labels.position(SeriesLabelPosition::UpperRight);
    labels
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .draw()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_that_follow_one_another_are_one_shape() {
        assert_eq!(stretches(&[5, 1, 2, 9, 3]), [1..4, 5..6, 9..10]);
        assert_eq!(stretches(&[]), []);
    }
}

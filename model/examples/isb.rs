//! Compares fits with the published ones of a breadth-first search by Sandia National Laboratories: `isb FOLDER` of the models of
//! <https://github.com/sstsimulator/a-sst>, `ISB-BFS/models`.
//!
//! The values are the mean microseconds of each transition between call sites, on 4 to 64 nodes and graphs of scales 16 to 24. Prints mean and median relative errors of
//! the published models and of ours. Ours are fitted once to all points, like the published ones, and once to points up to 36 nodes and evaluated at 49 and 64.

#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::collections::BTreeMap;
use std::path::Path;
use std::{env, fs, process};

use belljar_model::fit::{Fitted, Form, Point, fit, fit_among};

/// The values of each transition, by source and destination.
type Transitions = BTreeMap<(u32, u32), Vec<Point>>;

fn main() {
    let Some(folder) = env::args().nth(1) else {
        eprintln!("usage: isb FOLDER, which is ISB-BFS/models of github.com/sstsimulator/a-sst");
        process::exit(2);
    };
    let folder = Path::new(&folder);
    let all = traced(folder);
    let exponential = published(folder, "exec_exp.model");
    let polynomial = published(folder, "exec_poly.model");
    let points: usize = all.values().map(Vec::len).sum();
    println!("{} transitions, {points} points", all.len());
    println!(
        "| model | fitted to | asked for | mean error | median | of the sum of all transitions |\n|---|---|---|---|---|---|"
    );
    let every = |_: &Point| true;
    let large = |point: &Point| point.ranks > 36.0;
    for (name, theirs) in [
        ("published, exponential", &exponential),
        ("published, polynomial", &polynomial),
    ] {
        for (asked, of) in [
            ("all", &every as &dyn Fn(&Point) -> bool),
            ("49 and 64 nodes", &large),
        ] {
            said(name, "all", asked, &all, of, |key, point| {
                theirs.get(key).map(|of| of.at(point))
            });
        }
    }
    let small = |points: &[Point]| -> Vec<Point> {
        points.iter().filter(|it| !large(it)).copied().collect()
    };
    for (name, which) in [
        ("chosen among all forms", None),
        ("exponential alone", Some(Form::Exponential)),
    ] {
        let ours = |points: &[Point]| match which {
            None => fit(points),
            Some(of) => fit_among(points, |form| *form == of),
        };
        let fitted = |of: &dyn Fn(&[Point]) -> Vec<Point>| -> BTreeMap<(u32, u32), Fitted> {
            let fits = all
                .iter()
                .filter_map(|(key, own)| Some((*key, ours(&of(own)).ok()?)));
            fits.collect()
        };
        let whole = fitted(&<[Point]>::to_vec);
        let part = fitted(&small);
        let at = |of: &BTreeMap<(u32, u32), Fitted>, key: &(u32, u32), point: &Point| {
            of.get(key).map(|of| of.at(point.ranks, point.size))
        };
        said(name, "all", "all", &all, &every, |key, point| {
            at(&whole, key, point)
        });
        said(
            name,
            "all",
            "49 and 64 nodes",
            &all,
            &large,
            |key, point| at(&whole, key, point),
        );
        said(
            name,
            "up to 36 nodes",
            "49 and 64 nodes",
            &all,
            &large,
            |key, point| at(&part, key, point),
        );
    }
}

/// Reads the means of the traces.
fn traced(folder: &Path) -> Transitions {
    let mut all = Transitions::new();
    let folder = folder.join("trace");
    let files =
        fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<_> = files.flatten().map(|file| file.path()).collect();
    files.sort();
    for file in files {
        let name = file
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let Some(numbers) = name.strip_prefix("bfs_exectrace_") else {
            continue;
        };
        let numbers: Vec<f64> = numbers
            .split('-')
            .filter_map(|it| it.parse().ok())
            .collect();
        let [ranks, _, _, size, ..] = numbers[..] else {
            continue;
        };
        for line in fs::read_to_string(&file).unwrap_or_default().lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [from, to, _, "TRACE", values @ ..] = &words[..] else {
                continue;
            };
            let values: Vec<f64> = values.iter().filter_map(|it| it.parse().ok()).collect();
            // The first transition begins at the epoch.
            let (Ok(from), Ok(to)) = (from.parse(), to.parse()) else {
                continue;
            };
            if from == 0 || values.is_empty() {
                continue;
            }
            all.entry((from, to)).or_default().push(Point {
                ranks,
                size,
                value: values.iter().sum::<f64>() / values.len() as f64,
            });
        }
    }
    all.retain(|_, points| points.len() > 20);
    all
}

/// A published model.
enum Published {
    Constant(f64),
    Exponential([f64; 4]),
    /// A polynomial, by the exponents of size and nodes.
    Polynomial(Vec<(i32, i32, f64)>),
}

impl Published {
    fn at(&self, point: &Point) -> f64 {
        let Point { ranks, size, .. } = *point;
        match self {
            Self::Constant(value) => *value,
            Self::Exponential([a, b, c, d]) => (a * ranks * size + b * ranks + c * size + d).exp(),
            Self::Polynomial(terms) => {
                let terms = terms.iter();
                terms
                    .map(|(of_size, of_ranks, by)| by * size.powi(*of_size) * ranks.powi(*of_ranks))
                    .sum()
            }
        }
    }
}

fn published(folder: &Path, name: &str) -> BTreeMap<(u32, u32), Published> {
    let text = fs::read_to_string(folder.join(name)).unwrap_or_default();
    let mut header = Vec::new();
    let mut models = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.first() == Some(&"callsite_source") {
            header = words[3..]
                .iter()
                .filter_map(|it| {
                    let (size, ranks) = it.split_once(',')?;
                    Some((size.parse().ok()?, ranks.parse().ok()?))
                })
                .collect::<Vec<(i32, i32)>>();
            continue;
        }
        let [from, to, "1", rest @ ..] = &words[..] else {
            continue;
        };
        let (Ok(from), Ok(to)) = (from.parse(), to.parse()) else {
            continue;
        };
        let numbers: Vec<f64> = rest.iter().filter_map(|it| it.parse().ok()).collect();
        let model = match (rest.first(), &numbers[..]) {
            (Some(&"CONSTANT"), [value, ..]) => Published::Constant(*value),
            (Some(&"EXPONENTIAL"), [a, b, c, d]) => Published::Exponential([*a, *b, *c, *d]),
            (_, all) if all.len() == header.len() => {
                let terms = header.iter().zip(all);
                Published::Polynomial(
                    terms
                        .map(|((size, ranks), by)| (*size, *ranks, *by))
                        .collect(),
                )
            }
            _ => continue,
        };
        models.insert((from, to), model);
    }
    models
}

fn said(
    model: &str,
    to: &str,
    asked: &str,
    all: &Transitions,
    which: &dyn Fn(&Point) -> bool,
    of: impl Fn(&(u32, u32), &Point) -> Option<f64>,
) {
    let mut errors = Vec::new();
    let mut sums: BTreeMap<(u64, u64), (f64, f64)> = BTreeMap::new();
    for (key, points) in all {
        for point in points.iter().filter(|it| which(it) && it.value > 0.0) {
            if let Some(value) = of(key, point) {
                errors.push((value / point.value - 1.0).abs());
                let sum = sums
                    .entry((point.ranks as u64, point.size as u64))
                    .or_default();
                *sum = (sum.0 + value, sum.1 + point.value);
            }
        }
    }
    errors.sort_by(f64::total_cmp);
    let mean = errors.iter().sum::<f64>() / errors.len().max(1) as f64;
    let median = errors.get(errors.len() / 2).copied().unwrap_or(f64::NAN);
    let totals = sums
        .values()
        .map(|(is, was)| (is / was - 1.0).abs())
        .sum::<f64>()
        / sums.len().max(1) as f64;
    println!(
        "| {model} | {to} | {asked} | {:.1} % | {:.1} % | {:.1} % |",
        mean * 100.0,
        median * 100.0,
        totals * 100.0
    );
}

//! Forms of functions.
//!
//! For ranks and a size, a form returns the values that its coefficients multiply. Used by `fit`.

use std::fmt;

use belljar_sim::figures::{decimal, significant};
use serde::{Deserialize, Serialize};

use super::{DIGITS, Fitted, Point};

/// The form of a function. Its coefficients multiply the named parts, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// The constant one.
    Constant,
    /// Products of powers of ranks and size whose exponents sum to at most `order`, each relative to its centre in units of its span.
    Polynomial {
        /// The order, from 1 to 4.
        order: u8,
        /// Centre and half of the span of the ranks; a span of 0 excludes them.
        ranks: (f64, f64),
        /// The same for the size.
        size: (f64, f64),
    },
    /// The exponential of the sum of ranks times size, ranks, size, and one.
    Exponential,
    /// The constant one, and a term.
    One(Term),
    /// A single term.
    Alone(Term),
    /// The constant one, and two terms.
    Two(Term, Term),
}

impl Form {
    /// True for an equal share for each rank: in inverse proportion to ranks, with any power of the size.
    pub(crate) fn is_equal_share(&self) -> bool {
        matches!(self, Self::Alone(term) if term.ranks.exponent == -1.0 && term.ranks.logarithm == 0)
    }
}

/// A product of powers and logarithms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Term {
    /// The factor of the ranks.
    pub ranks: Power,
    /// The factor of the size.
    pub size: Power,
}

/// A power of a number, times a power of its binary logarithm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Power {
    /// The exponent of the number.
    pub exponent: f64,
    /// The exponent of the logarithm.
    pub logarithm: u8,
}

/// Exponents of the normal form, including those of decreasing functions.
const EXPONENTS: [f64; 20] = [
    0.0,
    -2.0,
    -1.5,
    -1.0,
    -3.0 / 4.0,
    -2.0 / 3.0,
    -0.5,
    -1.0 / 3.0,
    -0.25,
    0.25,
    1.0 / 3.0,
    0.5,
    2.0 / 3.0,
    0.75,
    1.0,
    4.0 / 3.0,
    1.5,
    2.0,
    2.5,
    3.0,
];

/// Exponents tried for a term in both ranks and size: the most common ones in programs.
const FEW: [f64; 7] = [0.0, -1.0, -0.5, 0.5, 1.0, 2.0, 3.0];

/// Exponents tried for few points: pieces of an all-to-all fall with the square of the ranks.
const SPARSE: [f64; 8] = [0.0, -1.0, -0.5, 0.5, 1.0, -2.0, 2.0, 3.0];

/// Number of points from which on all powers are tried: Extra-P requires five of each parameter.
pub(super) const SEVERAL: usize = 5;

impl Power {
    fn of(self, value: f64) -> f64 {
        let logarithm = value.log2().powi(i32::from(self.logarithm));
        value.powf(self.exponent) * logarithm
    }

    fn all(exponents: &[f64]) -> impl Iterator<Item = Self> + '_ {
        let both = exponents.iter().flat_map(|exponent| {
            (0..3).map(|logarithm| Self {
                exponent: *exponent,
                logarithm,
            })
        });
        both.filter(|it| *it != Self::default())
    }

    fn is_one(self) -> bool {
        self == Self::default()
    }
}

impl Term {
    fn of(self, ranks: f64, size: f64) -> f64 {
        self.ranks.of(ranks) * self.size.of(size)
    }
}

impl Term {
    /// Returns the cost beyond a constant: one for a product of a power and a logarithm, and one for growth faster than linear.
    fn growth(&self) -> usize {
        let of = |power: Power| {
            let product = power.exponent != 0.0 && power.logarithm > 0;
            usize::from(product)
                + usize::from(power.exponent.abs() > 1.0)
                + usize::from(power.logarithm > 1)
        };
        of(self.ranks) + of(self.size)
    }
}

impl Form {
    /// Returns the cost of its growth for few points.
    pub(super) fn growth(&self) -> usize {
        match self {
            Self::Constant => 0,
            Self::Alone(term) | Self::One(term) => term.growth(),
            Self::Two(a, b) => a.growth() + b.growth(),
            Self::Exponential => 1,
            Self::Polynomial { order, .. } => usize::from(order.saturating_sub(1)),
        }
    }

    /// Returns the factors of its coefficients at this number of ranks and this size.
    pub(super) fn row(&self, ranks: f64, size: f64) -> Vec<f64> {
        match *self {
            Self::Constant => vec![1.0],
            Self::Exponential => vec![ranks * size, ranks, size, 1.0],
            Self::One(term) => vec![1.0, term.of(ranks, size)],
            Self::Alone(term) => vec![term.of(ranks, size)],
            Self::Two(a, b) => vec![1.0, a.of(ranks, size), b.of(ranks, size)],
            Self::Polynomial {
                order,
                ranks: by_ranks,
                size: by_size,
            } => {
                let scaled = |value: f64, (centre, half): (f64, f64)| match half > 0.0 {
                    true => (value - centre) / half,
                    false => 0.0,
                };
                let (ranks, size) = (scaled(ranks, by_ranks), scaled(size, by_size));
                let powers = (0..=i32::from(order))
                    .flat_map(|sum| (0..=sum).map(move |of_ranks| (of_ranks, sum - of_ranks)));
                powers
                    .filter(|(of_ranks, of_size)| {
                        (by_ranks.1 > 0.0 || *of_ranks == 0) && (by_size.1 > 0.0 || *of_size == 0)
                    })
                    .map(|(of_ranks, of_size)| ranks.powi(of_ranks) * size.powi(of_size))
                    .collect()
            }
        }
    }
}

/// Returns the forms that these points may determine, in ascending order of their number of coefficients.
pub(super) fn candidates(points: &[Point]) -> Vec<Form> {
    let spans = |of: fn(&Point) -> f64| {
        let least = points.iter().map(of).fold(f64::INFINITY, f64::min);
        let most = points.iter().map(of).fold(0.0, f64::max);
        ((least + most) / 2.0, (most - least) / 2.0)
    };
    let (ranks, size) = (spans(|it| it.ranks), spans(|it| it.size));
    let one = [Power::default()];
    // Few points are explained by many powers, most with large errors beyond the points.
    let sparse = points.len() < SEVERAL;
    let choose = |spans: (f64, f64), few: bool| -> Vec<Power> {
        let powers = Power::all(match (few, sparse) {
            (true, _) => &FEW,
            (false, true) => &SPARSE,
            (false, false) => &EXPONENTS,
        });
        match spans.1 > 0.0 {
            true => powers
                .filter(|it| !sparse || it.logarithm < 2 && it.exponent <= 2.0)
                .collect(),
            false => Vec::new(),
        }
    };
    let both = ranks.1 > 0.0 && size.1 > 0.0;
    let alone = |of_ranks: Power, of_size: Power| Term {
        ranks: of_ranks,
        size: of_size,
    };
    let mut terms: Vec<Term> = choose(ranks, false)
        .into_iter()
        .map(|power| alone(power, one[0]))
        .collect();
    terms.extend(
        choose(size, false)
            .into_iter()
            .map(|power| alone(one[0], power)),
    );
    let products = choose(ranks, true).into_iter().flat_map(|a| {
        let sizes = if both { choose(size, true) } else { Vec::new() };
        sizes.into_iter().map(move |b| alone(a, b))
    });
    let products: Vec<Term> = products.collect();
    let all = || terms.iter().chain(&products).copied();
    let mut forms = vec![Form::Constant];
    forms.extend(all().map(Form::Alone));
    forms.extend(all().map(Form::One));
    if both {
        let of = |power: &Term| !power.ranks.is_one();
        for a in terms.iter().filter(|it| of(it)) {
            forms.extend(terms.iter().filter(|it| !of(it)).map(|b| Form::Two(*a, *b)));
        }
        forms.push(Form::Exponential);
    }
    if ranks.1 > 0.0 || size.1 > 0.0 {
        forms.extend((1..=4).map(|order| Form::Polynomial { order, ranks, size }));
    }
    forms
}

impl fmt::Display for Power {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The caller writes the preceding number.
        if self.exponent != 1.0 {
            write!(to, "^{}", significant(self.exponent, 5))?;
        }
        Ok(())
    }
}

/// Formats a number: integers exactly, others with six significant digits, or large ones with one decimal place.
fn number(value: f64) -> String {
    let value = significant(value, DIGITS);
    match value.abs() {
        size if value.fract() == 0.0 && size < 1e15 => decimal(value, 0),
        size if size >= 1e5 => decimal(value, 1),
        _ => significant(value, 6).to_string(),
    }
}

/// Formats a power of the parameter `name`.
fn powered(name: &str, power: Power) -> Vec<String> {
    let mut parts = Vec::new();
    if power.exponent != 0.0 {
        parts.push(format!("{name}{power}"));
    }
    match power.logarithm {
        0 => {}
        1 => parts.push(format!("log2({name})")),
        more => parts.push(format!("log2({name})^{more}")),
    }
    parts
}

impl fmt::Display for Fitted {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let c = |index: usize| self.coefficients.get(index).copied().unwrap_or(0.0);
        let term = |by: f64, term: Term| {
            let parts = [powered("ranks", term.ranks), powered("size", term.size)].concat();
            format!("{} * {}", number(by), parts.join(" * "))
        };
        match self.form {
            Form::Constant => write!(to, "{}", number(c(0))),
            Form::Alone(a) => write!(to, "{}", term(c(0), a)),
            Form::One(a) => write!(to, "{} + {}", number(c(0)), term(c(1), a)),
            Form::Two(a, b) => {
                let (a, b) = (term(c(1), a), term(c(2), b));
                write!(to, "{} + {a} + {b}", number(c(0)))
            }
            Form::Exponential => write!(
                to,
                "exp({} * ranks * size + {} * ranks + {} * size + {})",
                number(c(0)),
                number(c(1)),
                number(c(2)),
                number(c(3))
            ),
            Form::Polynomial { order, .. } => write!(to, "a polynomial of order {order}"),
        }
    }
}

//! Slurm's lists of counts, such as `4(x2),2`: 4, 4 and 2.
//!
//! The result has exactly one count for each host, all above zero; anything else is an error. Called
//! for the variables with a job's resources on each host.

/// Errors in a list of counts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CountsError {
    /// Neither `N` nor `N(xTIMES)`, with N and TIMES above zero.
    #[error("`{0}` is not a count of processors, such as 4 or 4(x2)")]
    Item(String),
    /// Counts for another number of hosts.
    #[error("`{text}` has counts for {counted} hosts, and there are {hosts}")]
    Hosts {
        /// The list.
        text: String,
        /// Hosts in the list; if there are too many, a lower bound.
        counted: usize,
        /// Expected hosts.
        hosts: usize,
    },
}

/// The counts, one for each of `hosts` hosts.
pub(super) fn parse(text: &str, hosts: usize) -> Result<Vec<u32>, CountsError> {
    let mut counts = Vec::new();
    for item in text.trim().split(',') {
        let wrong = || CountsError::Item(item.to_owned());
        let (count, times) = match item.split_once("(x") {
            Some((count, rest)) => {
                let times = rest.strip_suffix(')').ok_or_else(wrong)?;
                (count, positive(times).ok_or_else(wrong)?)
            }
            None => (item, 1),
        };
        let count = positive(count).ok_or_else(wrong)?;
        let counted = counts.len().saturating_add(times as usize);
        // Checked before allocation: a list of ten letters may stand for billions of hosts.
        if counted > hosts {
            return Err(not_these(text, counted, hosts));
        }
        counts.resize(counted, count);
    }
    if counts.len() != hosts {
        return Err(not_these(text, counts.len(), hosts));
    }
    Ok(counts)
}

fn not_these(text: &str, counted: usize, hosts: usize) -> CountsError {
    CountsError::Hosts {
        text: text.to_owned(),
        counted,
        hosts,
    }
}

fn positive(text: &str) -> Option<u32> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then_some(text)?.parse().ok().filter(|&n| n > 0)
}

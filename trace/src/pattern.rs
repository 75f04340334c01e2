//! Patterns for names of functions, as shells use them for files.
//!
//! Used for a scenario's selected functions and for filters.

/// True if `name` matches `pattern`, in which `*` stands for any text and `?` for any one character.
pub fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut p, mut n) = (0, 0);
    // The position to resume from when the text after the last `*` does not match: the star takes one more character.
    // Takes time proportional to pattern times name.
    let mut resume: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                resume = Some((p, n));
                p += 1;
            }
            Some(&byte) if byte == b'?' || byte == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match resume {
                Some((star, from)) => {
                    p = star + 1;
                    n = from + 1;
                    resume = Some((star, from + 1));
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&byte| byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_shells_do() {
        for (pattern, name, expected) in [
            ("MPI_Send", "MPI_Send", true),
            ("MPI_Send", "MPI_Send_c", false),
            ("MPI_I*", "MPI_Isend", true),
            ("MPI_I*", "MPI_Send", false),
            ("*send*", "MPI_Isend_c", true),
            ("*a*b", "aXbXab", true),
            ("*a*b", "aXbXa", false),
            ("MPI_?end", "MPI_Rend", true),
            ("MPI_?end", "MPI_end", false),
            ("", "MPI_Send", false),
            ("***", "", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}

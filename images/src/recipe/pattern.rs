//! Patterns of paths: `*` and `?` match within one component of a path, `**` matches any number of
//! components. Everything else is literal. Used for the files of packages and for those next to a recipe. A
//! pattern matches the same paths wherever it is used.

use glob::MatchOptions;

const OPTIONS: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

/// A pattern that paths are matched with.
#[derive(Debug, Clone)]
pub(crate) struct Pattern(glob::Pattern);

impl Pattern {
    /// `None` if `**` is only a part of a component.
    pub(crate) fn new(text: &str) -> Option<Self> {
        // Brackets are literal here: there is a program named `[`.
        let escaped = text.replace('[', "[[]");
        glob::Pattern::new(&escaped).ok().map(Self)
    }

    pub(crate) fn matches(&self, path: &str) -> bool {
        self.0.matches_with(path, OPTIONS)
    }
}

/// The part of a path before the first component that has a `*` or a `?`, with its last `/`; the whole path
/// if it has neither.
pub(crate) fn literal_part(pattern: &str) -> &str {
    let Some(star) = pattern.find(['*', '?']) else {
        return pattern;
    };
    let end = pattern[..star].rfind('/').map_or(0, |end| end + 1);
    &pattern[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stay_within_a_part_and_double_ones_do_not() {
        let fits = |pattern: &str, path: &str| Pattern::new(pattern).expect("good").matches(path);
        assert!(fits("/usr/lib/*.so.?", "/usr/lib/libx.so.0"));
        assert!(!fits("/usr/lib/*.so.0", "/usr/lib/deep/libx.so.0"));
        assert!(fits("/usr/**/*.h", "/usr/include/a/b.h") && fits("/usr/**/*.h", "/usr/b.h"));
        assert!(fits("/opt/**", "/opt/a/b/c") && !fits("/opt/**", "/optional"));
        assert!(fits("/usr/bin/[", "/usr/bin/[") && fits("/usr/bin/*[", "/usr/bin/x["));
        assert!(Pattern::new("/usr/a**").is_none());
    }

    #[test]
    fn the_literal_part_ends_before_the_first_star() {
        assert_eq!(literal_part("/usr/lib/*/x*"), "/usr/lib/");
        assert_eq!(literal_part("/usr/lib/x"), "/usr/lib/x");
        assert_eq!(literal_part("*.h"), "");
    }
}

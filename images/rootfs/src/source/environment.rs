//! Variables that an Apptainer image's scripts set, read without running anything.
//!
//! The scripts are shell; of it assignments, `export` and `unset` are read, with quotes and with other variables in their values.
//! All else (conditions, loops, other commands and their output) is left out, and a warning names each. Called where an
//! Apptainer image is read, for its scripts in their order.

use std::collections::{BTreeMap, BTreeSet};

/// Most warnings of an image, and longest text of a script in one.
const MOST_WARNINGS: usize = 20;
const LONGEST_TEXT: usize = 80;
/// Longest value, as in Linux, and most bytes of all values, in bytes.
const LONGEST_VALUE: usize = 128 << 10;
const MOST_BYTES: usize = 64 << 20;
/// Deepest expansion in an expansion.
const DEEPEST: usize = 16;
/// Words that begin a part that runs under a condition or several times, and that end one.
const OPENERS: [&str; 8] = [
    "if", "for", "while", "until", "case", "select", "function", "{",
];
const CLOSERS: [&str; 4] = ["fi", "done", "esac", "}"];

/// Variables while scripts are read.
pub(super) struct Environment {
    values: BTreeMap<String, String>,
    exported: BTreeSet<String>,
    warnings: Vec<String>,
    /// Bytes that values may still take.
    left: usize,
}

/// A word as written, with its value.
#[derive(Default)]
struct Word {
    raw: String,
    value: String,
    is_understood: bool,
}

/// Words up to a line's end or a semicolon.
struct ShellCommand {
    line: usize,
    text: String,
    words: Vec<Word>,
    /// True without pipes, redirections and conditions.
    is_plain: bool,
}

impl ShellCommand {
    /// Counts the words of `list` at the beginning of a command.
    fn count(&self, list: &[&str]) -> usize {
        let words = self.words.iter().enumerate();
        let found = words.filter(|(at, word)| {
            let before = at.checked_sub(1).map(|at| self.words[at].raw.as_str());
            let begins = before.is_none_or(|word| ["then", "do", "else", "!"].contains(&word));
            list.contains(&word.raw.as_str()) && (begins || ["{", "}"].contains(&word.raw.as_str()))
        });
        found.count()
    }
}

/// Adds to a value that is not too long yet.
fn push(value: &mut String, more: &str) {
    if value.len() <= LONGEST_VALUE {
        value.push_str(more);
    }
}

impl Environment {
    /// Creates the variables that every container has.
    pub(super) fn new() -> Self {
        let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        let known = [("PATH", path), ("HOME", "/root")];
        let known = known.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Self {
            values: BTreeMap::from(known),
            exported: BTreeSet::new(),
            warnings: Vec::new(),
            left: MOST_BYTES,
        }
    }

    /// Reads the script `text`, which warnings call `name`.
    pub(super) fn read(&mut self, name: &str, text: &str) {
        let mut lexer = Lexer {
            letters: text.chars().collect(),
            at: 0,
            line: 1,
        };
        let mut depth = 0_usize;
        while let Some(command) = lexer.command(&self.values) {
            if self.left == 0 || command.text.contains("<<") {
                self.warn(name, &command, "this line and all after it are left out");
                return;
            }
            let made: usize = command.words.iter().map(|word| word.value.len()).sum();
            self.left = self.left.saturating_sub(made);
            let (opened, closed) = (command.count(&OPENERS), command.count(&CLOSERS));
            if depth > 0 || opened > 0 {
                if depth == 0 {
                    self.warn(name, &command, "it and what it encloses are left out");
                }
                depth = (depth + opened).saturating_sub(closed);
            } else if !self.carry_out(&command) {
                self.warn(name, &command, "it is left out");
            }
        }
    }

    /// Returns the exported variables, and warnings about other lines.
    pub(super) fn finish(mut self) -> (BTreeMap<String, String>, Vec<String>) {
        self.values.retain(|name, _| self.exported.contains(name));
        (self.values, self.warnings)
    }

    /// Carries out a command; false when it is not understood.
    fn carry_out(&mut self, command: &ShellCommand) -> bool {
        let Some(first) = command.words.first() else {
            return command.is_plain;
        };
        if !command.is_plain {
            return false;
        }
        let rest = &command.words[1..];
        match first.raw.as_str() {
            "export" => rest.iter().all(|word| self.export(word)),
            "unset" => rest.iter().all(|word| self.unset(word)),
            // Settings of the shell that sets the variables, and no more.
            "set" => rest.iter().all(|word| word.raw.starts_with(['-', '+'])),
            ":" | "true" => true,
            _ => command.words.iter().all(|word| self.assign(word).is_some()),
        }
    }

    fn export(&mut self, word: &Word) -> bool {
        let name = match word.raw.contains('=') {
            true => self.assign(word),
            false => Some(word.raw.clone()).filter(|name| is_name(name)),
        };
        name.map(|name| self.exported.insert(name)).is_some()
    }

    fn unset(&mut self, word: &Word) -> bool {
        if word.raw != "-v" {
            self.values.remove(&word.raw);
            self.exported.remove(&word.raw);
        }
        word.raw == "-v" || is_name(&word.raw)
    }

    /// Assigns the variable of `NAME=VALUE`; its name.
    fn assign(&mut self, word: &Word) -> Option<String> {
        let (name, _) = word.raw.split_once('=')?;
        let value = word.value.get(name.len() + 1..)?;
        // A shell puts a folder in place of it.
        let has_home = value.starts_with('~') || value.contains(":~");
        if !is_name(name) || !word.is_understood || has_home || value.len() > LONGEST_VALUE {
            return None;
        }
        self.values.insert(name.to_owned(), value.to_owned());
        Some(name.to_owned())
    }

    fn warn(&mut self, name: &str, command: &ShellCommand, why: &str) {
        let text: String = command.text.trim().chars().take(LONGEST_TEXT).collect();
        let text = text.replace('\n', " ");
        match self.warnings.len() {
            0..MOST_WARNINGS => {
                let line = command.line;
                self.warnings
                    .push(format!("{name}, line {line}, `{text}`: {why}, as only assignments, export and unset are read"));
            }
            MOST_WARNINGS => self.warnings.push(format!("{name}: more is left out")),
            _ => {}
        }
    }
}

fn is_name(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !text.is_empty() && !text.as_bytes()[0].is_ascii_digit() && text.bytes().all(is_letter)
}

struct Lexer {
    letters: Vec<char>,
    at: usize,
    line: usize,
}

type Values = BTreeMap<String, String>;

impl Lexer {
    fn next(&mut self) -> Option<char> {
        let letter = self.letters.get(self.at).copied()?;
        self.at += 1;
        self.line += usize::from(letter == '\n');
        Some(letter)
    }

    fn peek(&self) -> Option<char> {
        self.letters.get(self.at).copied()
    }

    /// The next command, with the values that variables have by now.
    fn command(&mut self, values: &Values) -> Option<ShellCommand> {
        self.peek()?;
        let (line, start) = (self.line, self.at);
        let mut command = ShellCommand {
            line,
            text: String::new(),
            words: Vec::new(),
            is_plain: true,
        };
        let mut end = self.at;
        while let Some(letter) = self.peek() {
            match letter {
                '\n' | ';' => {
                    self.next();
                    break;
                }
                '#' => {
                    while self.peek().is_some_and(|letter| letter != '\n') {
                        self.next();
                    }
                    continue;
                }
                '&' | '|' | '<' | '>' | '(' | ')' => {
                    command.is_plain = false;
                    self.next();
                }
                ' ' | '\t' | '\r' => {
                    self.next();
                }
                _ => {
                    let word = self.word(values);
                    if !word.raw.is_empty() {
                        command.words.push(word);
                    }
                }
            }
            end = self.at;
        }
        command.text = self.letters[start..end].iter().collect();
        Some(command)
    }

    fn word(&mut self, values: &Values) -> Word {
        let start = self.at;
        let mut value = String::new();
        let ends = |letter: char| " \t\r\n;&|<>()".contains(letter);
        let is_understood = self.text(values, &mut value, &ends, 0).is_some();
        let raw: String = self.letters[start..self.at].iter().collect();
        Word {
            // A line that continues on the next one is no word.
            raw: if raw == "\\\n" { String::new() } else { raw },
            is_understood: is_understood && value.len() <= LONGEST_VALUE,
            value,
        }
    }

    /// Reads quoted and plain text up to a letter that ends it; none when something is not understood.
    fn text(
        &mut self,
        values: &Values,
        value: &mut String,
        ends: &dyn Fn(char) -> bool,
        depth: usize,
    ) -> Option<()> {
        let mut understood = Some(());
        while let Some(letter) = self.peek() {
            if ends(letter) {
                break;
            }
            self.next();
            let part = match letter {
                '\'' => self.quoted(value),
                '"' => self.double_quoted(values, value, depth),
                '$' => self.expansion(values, value, depth),
                '`' => None,
                '\\' => {
                    value.extend(self.next().filter(|&letter| letter != '\n'));
                    Some(())
                }
                other => {
                    value.push(other);
                    Some(())
                }
            };
            understood = understood
                .and(part)
                .filter(|()| value.len() <= LONGEST_VALUE);
        }
        understood
    }

    fn quoted(&mut self, value: &mut String) -> Option<()> {
        loop {
            match self.next()? {
                '\'' => return Some(()),
                other => value.push(other),
            }
        }
    }

    fn double_quoted(&mut self, values: &Values, value: &mut String, depth: usize) -> Option<()> {
        let mut understood = Some(());
        loop {
            match self.next()? {
                '"' => return understood,
                '`' => understood = None,
                '$' => understood = understood.and(self.expansion(values, value, depth)),
                '\\' => match self.next()? {
                    '\n' => {}
                    escaped @ ('"' | '$' | '`' | '\\') => value.push(escaped),
                    other => value.extend(['\\', other]),
                },
                other => value.push(other),
            }
            understood = understood.filter(|()| value.len() <= LONGEST_VALUE);
        }
    }

    /// Reads an expansion after `$`: a name, plain or in braces, with a default.
    fn expansion(&mut self, values: &Values, value: &mut String, depth: usize) -> Option<()> {
        let in_braces = self.peek() == Some('{');
        if in_braces {
            self.next();
        }
        let mut name = String::new();
        while let Some(letter) = self
            .peek()
            .filter(|letter| letter.is_ascii_alphanumeric() || *letter == '_')
        {
            name.push(letter);
            self.next();
        }
        let known = values.get(&name);
        if !in_braces {
            if name.is_empty()
                && self
                    .peek()
                    .is_none_or(|letter| " \t\r\n;\"/:,.".contains(letter))
            {
                value.push('$');
                return Some(());
            }
            push(value, known.map_or("", String::as_str));
            return is_name(&name).then_some(());
        }
        let is_strict = self.peek() == Some(':');
        if is_strict {
            self.next();
        }
        let operator = self.next()?;
        if operator == '}' {
            push(value, known.map_or("", String::as_str));
            return (is_name(&name) && !is_strict).then_some(());
        }
        let mut other = String::new();
        let within = match depth < DEEPEST {
            true => self.text(values, &mut other, &|letter| letter == '}', depth + 1),
            false => None,
        };
        self.next();
        let known = known.filter(|known| !is_strict || !known.is_empty());
        match (operator, known) {
            ('-', Some(known)) => push(value, known),
            ('-', None) | ('+', Some(_)) => push(value, &other),
            ('+', None) => {}
            _ => return None,
        }
        within.filter(|()| is_name(&name))
    }
}

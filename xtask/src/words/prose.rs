//! Extracts the prose of a file: everything in a page or script; comments and string literals of a program.
//!
//! The lines of a paragraph, comment or string are joined by spaces, so that a phrase is found across line ends.

/// How a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Markdown.
    Page,
    /// Any file with `#` or `//` comments, including its code: shell, TOML, YAML, assembly.
    Script,
    /// Rust and C.
    Program,
}

impl Kind {
    /// Returns the kind of the file with this path; `None` if it is not checked.
    pub(super) fn of(path: &str) -> Option<Self> {
        let name = path.rsplit('/').next().unwrap_or(path);
        let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
        match extension {
            "md" => Some(Self::Page),
            "rs" | "c" | "h" => Some(Self::Program),
            "sh" | "toml" | "yml" | "yaml" | "S" => Some(Self::Script),
            _ if path == ".ci/run" || name == "Makefile" || name == "Kbuild" => Some(Self::Script),
            _ => None,
        }
    }

    /// Returns the text that precedes an allowed phrase.
    fn marker(self) -> &'static str {
        match self {
            Self::Page => "<!-- words: allow ",
            Self::Script => "# words: allow ",
            Self::Program => "// words: allow ",
        }
    }
}

/// A comment that allows a phrase on its own line and the next line: `words: allow "PHRASE": REASON`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Marker {
    pub(super) line: usize,
    pub(super) phrase: String,
    /// Empty if no reason was given.
    pub(super) reason: String,
}

/// The prose of a file.
#[derive(Debug)]
pub(super) struct Prose {
    /// In lower case, with one paragraph, comment or string per line.
    pub(super) text: String,
    pub(super) markers: Vec<Marker>,
    kind: Kind,
    /// For each line of the file, its offset in `text` and its number, counted from 1.
    starts: Vec<(usize, usize)>,
    /// The line of a comment that the next line may continue.
    open: Option<usize>,
}

impl Prose {
    pub(super) fn new(kind: Kind, text: &str) -> Self {
        let mut prose = Self {
            text: String::new(),
            markers: Vec::new(),
            kind,
            starts: Vec::new(),
            open: None,
        };
        if kind == Kind::Program {
            prose.scan(text);
        } else {
            for (index, line) in text.lines().enumerate() {
                prose.comment(index + 1, line);
            }
        }
        prose.text.make_ascii_lowercase();
        prose
    }

    /// Returns the file's line that contains the byte at `offset` of the text.
    pub(super) fn line(&self, offset: usize) -> usize {
        let after = self.starts.partition_point(|&(start, _)| start <= offset);
        self.starts[after - 1].1
    }

    /// Adds a line of a comment or page. It continues the previous line, unless that is empty or something else.
    fn comment(&mut self, line: usize, text: &str) {
        let marked = text.find(self.kind.marker());
        // A program's string may contain text like a marker, and a comment may describe a marker.
        let marked = marked.filter(|&at| self.kind != Kind::Program || at == 0);
        if let Some(at) = marked {
            let marker = parse_marker(line, &text[at + self.kind.marker().len()..]);
            self.markers.push(marker);
        }
        let text =
            text[..marked.unwrap_or(text.len())].trim_matches(['/', '*', '!', '#', ' ', '\t']);
        if self.open.is_none_or(|open| open + 1 != line) {
            self.separate();
        }
        self.open = Some(line);
        if text.is_empty() && marked.is_none() {
            self.separate();
        }
        self.add(line, text);
    }

    /// Adds text that continues the previous text.
    fn add(&mut self, line: usize, text: &str) {
        if text.is_empty() {
            return;
        }
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push(' ');
        }
        self.starts.push((self.text.len(), line));
        self.text.push_str(text);
    }

    /// Ends the current text: the next text does not continue it.
    fn separate(&mut self) {
        self.open = None;
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
    }

    /// Adds the comments and string literals of a program.
    fn scan(&mut self, text: &str) {
        let bytes = text.as_bytes();
        let (mut at, mut line) = (0, 1);
        while at < bytes.len() {
            let next = bytes.get(at + 1).copied();
            match bytes[at] {
                b'\n' => {
                    line += 1;
                    at += 1;
                }
                b'/' if next == Some(b'/') => {
                    let end = text[at..].find('\n').map_or(text.len(), |end| at + end);
                    self.comment(line, &text[at..end]);
                    at = end;
                }
                b'/' if next == Some(b'*') => {
                    let end = block_end(bytes, at);
                    for part in text[at..end].split('\n') {
                        self.comment(line, part);
                        line += 1;
                    }
                    line -= 1;
                    at = end;
                }
                b'"' => at = self.string(text, at + 1, &mut line),
                b'\'' => at = quote_end(text, at),
                byte if byte.is_ascii_alphabetic() || byte == b'_' => {
                    let end = at + word_length(&bytes[at..]);
                    let hashes = bytes[end..]
                        .iter()
                        .take_while(|&&byte| byte == b'#')
                        .count();
                    let raw = matches!(&text[at..end], "r" | "br" | "cr")
                        && bytes.get(end + hashes) == Some(&b'"');
                    at = end;
                    if raw {
                        at = self.raw_string(text, end + hashes + 1, hashes, &mut line);
                    }
                }
                _ => at += 1,
            }
        }
    }

    /// Adds the string literal whose first character is at `at`, and returns the position of its end.
    fn string(&mut self, text: &str, mut at: usize, line: &mut usize) -> usize {
        self.separate();
        let mut piece = String::new();
        let mut escaped = false;
        for character in text[at..].chars() {
            at += character.len_utf8();
            match character {
                '"' if !escaped => break,
                '\\' if !escaped => {
                    escaped = true;
                    continue;
                }
                '\n' => {
                    self.add(*line, piece.trim());
                    piece.clear();
                    *line += 1;
                }
                'n' if escaped => {
                    self.add(*line, piece.trim());
                    piece.clear();
                    self.separate();
                }
                _ => piece.push(character),
            }
            escaped = false;
        }
        self.add(*line, piece.trim());
        self.separate();
        at
    }

    /// Adds the raw string literal whose first character is at `at`, and returns the position of its end.
    fn raw_string(&mut self, text: &str, at: usize, hashes: usize, line: &mut usize) -> usize {
        self.separate();
        let closing = format!("\"{}", "#".repeat(hashes));
        let end = text[at..].find(&closing).map_or(text.len(), |end| at + end);
        for (index, part) in text[at..end].split('\n').enumerate() {
            *line += usize::from(index > 0);
            if part.trim().is_empty() {
                self.separate();
            }
            self.add(*line, part.trim());
        }
        self.separate();
        text.len().min(end + closing.len())
    }
}

/// Parses the text after `words: allow `: the phrase in quotes, a colon and the reason.
fn parse_marker(line: usize, text: &str) -> Marker {
    let quoted = text.strip_prefix('"').and_then(|text| text.split_once('"'));
    let (phrase, rest) = quoted.unwrap_or((text, ""));
    let reason = rest.strip_prefix(':').unwrap_or_default();
    Marker {
        line,
        phrase: phrase.to_owned(),
        reason: reason.trim().trim_end_matches("-->").trim().to_owned(),
    }
}

/// Returns the end of the block comment that begins at `at`. In Rust, block comments nest.
fn block_end(bytes: &[u8], mut at: usize) -> usize {
    let mut depth = 0;
    while at + 1 < bytes.len() {
        match &bytes[at..at + 2] {
            b"/*" => depth += 1,
            b"*/" => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return at;
        }
    }
    bytes.len()
}

/// Returns where the code continues after the quote at `at`, which begins a character literal or a lifetime.
fn quote_end(text: &str, at: usize) -> usize {
    let mut characters = text[at + 1..].chars();
    match characters.next() {
        Some('\\') => {
            let inside = at + 2 + characters.next().map_or(0, char::len_utf8);
            let end = text[inside..].find('\'');
            end.map_or(text.len(), |end| inside + end + 1)
        }
        Some(character) if characters.next() == Some('\'') => at + 2 + character.len_utf8(),
        _ => at + 1,
    }
}

fn word_length(bytes: &[u8]) -> usize {
    let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_';
    bytes.iter().take_while(is_part).count()
}

#[cfg(test)]
#[path = "prose_test.rs"]
mod tests;

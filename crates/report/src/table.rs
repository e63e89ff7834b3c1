//! The content of a report, comparison or verdict before it becomes text: sentences, labelled facts and tables.
//!
//! A view makes a list of [`Block`]s; the writers in `write` lay them out for a terminal, Markdown or HTML. Writers
//! decide widths, escaping, alignment and colours; views decide what a number means.

/// A part of the output, from top to bottom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Block {
    /// Labels with their texts: the host, the runs, the backends.
    Facts(Vec<(String, String)>),
    /// A sentence.
    Text(Cell),
    /// A sentence, and the details that belong to it.
    Detail(Cell, String),
    /// A footnote of the table before it.
    Note(String),
    /// A table.
    Table(Table),
}

impl Block {
    /// A sentence without emphasis.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(Cell::from(text))
    }
}

/// A table, as a list of columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// The title, above the table.
    pub title: Option<String>,
    /// The columns; the first one has the names of the rows.
    pub columns: Vec<Column>,
    /// What happens to columns that do not fit next to each other.
    pub overflow: Overflow,
    /// Whether columns on a terminal are separated by one blank instead of two.
    pub is_dense: bool,
}

/// What happens to the columns of a table that is wider than the terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overflow {
    /// The columns of the highest rank are left out, until the others fit.
    #[default]
    LeaveOut,
    /// The columns that do not fit follow in a table below, which repeats the names of the rows.
    Continue,
}

/// A column: its title and a cell for each row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The title.
    pub title: String,
    /// What the column has in common with its neighbours, above their titles.
    pub group: Option<String>,
    /// How the column's cells are aligned.
    pub align: Align,
    /// When the column is left out of a table that is too wide: the highest rank first, rank 0 never.
    pub rank: u8,
    /// The minimum width of its cells, so that the column does not move when a number grows.
    pub least: usize,
    /// Whether texts that do not fit next to the other columns are shortened in the middle, down to the least width.
    pub is_shortened: bool,
    /// The cells, one for each row.
    pub cells: Vec<Cell>,
}

/// How the cells of a column are aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// A text with its emphasis.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// The text.
    pub text: String,
    /// A mark that a footnote explains. It follows the text, and does not disturb the alignment of digits.
    pub mark: &'static str,
    /// The colour or weight.
    pub paint: Paint,
    /// The identifier of the part of the page that has more about it.
    pub link: Option<String>,
}

/// The colour or weight of a text. Formats without colours show good and bad in bold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Paint {
    /// Ordinary text.
    #[default]
    Plain,
    /// The most important text.
    Bold,
    /// Less important text.
    Dim,
    /// Good.
    Green,
    /// Bad.
    Red,
    /// Doubtful.
    Yellow,
}

impl Table {
    /// A table whose rows have these names.
    pub fn new(
        title: impl Into<String>,
        names: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        Self {
            columns: vec![Column {
                cells: names.into_iter().map(Cell::from).collect(),
                ..Column::words(title)
            }],
            ..Self::default()
        }
    }

    /// Adds a column, unless it would be empty. A row without a value has a dash.
    pub fn add(&mut self, column: Column, cells: impl IntoIterator<Item = Option<Cell>>) {
        let cells: Vec<Option<Cell>> = cells.into_iter().collect();
        if cells.iter().flatten().any(|cell| !cell.text.is_empty()) {
            let cells = cells
                .into_iter()
                .map(|cell| cell.unwrap_or_else(|| Cell::from("-")));
            self.columns.push(Column {
                cells: cells.collect(),
                ..column
            });
        }
    }

    /// Whether the table has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows() == 0
    }

    /// The number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.columns.first().map_or(0, |names| names.cells.len())
    }
}

impl Column {
    /// A column of words.
    pub fn words(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            group: None,
            align: Align::Left,
            rank: 0,
            least: 0,
            is_shortened: false,
            cells: Vec::new(),
        }
    }

    /// A column of numbers.
    pub fn numbers(title: impl Into<String>) -> Self {
        Self {
            align: Align::Right,
            ..Self::words(title)
        }
    }

    /// The column with a rank.
    #[must_use]
    pub fn rank(self, rank: u8) -> Self {
        Self { rank, ..self }
    }

    /// The column with a least width.
    #[must_use]
    pub fn at_least(self, least: usize) -> Self {
        Self { least, ..self }
    }

    /// The column as one of a group.
    #[must_use]
    pub fn in_group(self, group: Option<String>) -> Self {
        Self { group, ..self }
    }
}

impl Cell {
    /// A text with an emphasis.
    pub fn new(text: impl Into<String>, paint: Paint) -> Self {
        Self {
            text: text.into(),
            paint,
            ..Self::default()
        }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::new(text, Paint::Plain)
    }
}

//! Tests of blocks on a terminal.

use super::*;

const PLAIN: Screen = Screen {
    color: false,
    width: None,
};

fn narrow(width: usize) -> Screen {
    Screen {
        width: Some(width),
        ..PLAIN
    }
}

fn cells(texts: &[&str]) -> Vec<Option<Cell>> {
    let cell = |text: &&str| Some(Cell::from(*text));
    texts.iter().map(cell).collect()
}

fn shown(table: Table, screen: Screen) -> String {
    terminal(&[Block::Table(table)], screen)
}

/// A table with a row for each name and a column `x` of these texts.
fn table(names: &[&str], texts: &[&str]) -> Table {
    let mut table = Table::new("name", names.iter().copied());
    table.add(Column::numbers("x"), cells(texts));
    table
}

#[test]
fn names_are_on_the_left_and_numbers_on_the_right() {
    let mut table = Table::new("name", ["a"]);
    table.add(Column::numbers("median"), cells(&["5 µs"]));
    table.add(Column::words("verdict"), cells(&["ok"]));
    assert_eq!(
        shown(table, PLAIN),
        "name  median  verdict\na       5 µs  ok\n"
    );
}

#[test]
fn colours_take_no_room() {
    let mut table = Table::new("name", ["a"]);
    table.add(Column::numbers("x"), [Some(Cell::new("ab", Paint::Green))]);
    let color = Screen {
        color: true,
        ..PLAIN
    };
    assert_eq!(
        shown(table, color),
        "\x1b[1mname\x1b[0m   \x1b[1mx\x1b[0m\na     \x1b[32mab\x1b[0m\n"
    );
}

#[test]
fn a_wide_character_takes_two_cells() {
    assert_eq!(
        shown(table(&["仮想機械"], &["速い"]), PLAIN),
        "name         x\n仮想機械  速い\n"
    );
}

#[test]
fn no_line_ends_in_spaces() {
    assert_eq!(
        shown(table(&["a", "b"], &["", "1"]), PLAIN),
        "name  x\na\nb     1\n"
    );
}

#[test]
fn a_mark_moves_no_digit() {
    let mut table = Table::new("name", ["a", "b"]);
    let marked = Cell {
        mark: "*",
        ..Cell::from("10")
    };
    table.add(Column::numbers("x"), [Some(marked), Some(Cell::from("9"))]);
    assert_eq!(shown(table, PLAIN), "name   x\na     10*\nb      9\n");
}

#[test]
fn the_columns_of_the_highest_rank_are_left_out_first() {
    let mut table = Table::new("name", ["a"]);
    for (group, rank) in [("one", 0), ("one", 2), ("two", 0), ("two", 2)] {
        let column = Column::numbers(format!("rank {rank}")).rank(rank);
        table.add(column.in_group(Some(group.to_owned())), cells(&["1"]));
    }
    let all = shown(table.clone(), narrow(36));
    assert_eq!(all.matches("rank 2").count(), 2, "{all}");
    let few = shown(table, narrow(35));
    assert_eq!(
        few,
        "         one     two\nname  rank 0  rank 0\na          1       1\n"
    );
}

#[test]
fn columns_that_do_not_fit_follow_below_with_the_names_again() {
    let mut table = table(&["a"], &["100"]);
    table.overflow = Overflow::Continue;
    table.add(Column::numbers("cloud-hypervisor"), cells(&["200"]));
    assert_eq!(
        shown(table.clone(), PLAIN),
        "               cloud-\nname    x  hypervisor\na     100         200\n"
    );
    assert_eq!(
        shown(table, narrow(18)),
        "name    x\na     100\n\n          cloud-\nname  hypervisor\na            200\n"
    );
}

#[test]
fn the_title_of_the_names_is_whole() {
    let mut table = Table::new("linux-boot: accesses", ["a"]);
    table.overflow = Overflow::Continue;
    table.add(Column::numbers("x"), cells(&["1"]));
    assert_eq!(
        shown(table, PLAIN),
        "linux-boot: accesses  x\na                     1\n"
    );
}

#[test]
fn the_words_of_the_last_column_are_broken_between_words() {
    let mut table = Table::new("name", ["a"]);
    table.add(Column::words("what"), cells(&["one two three"]));
    assert_eq!(
        shown(table, narrow(14)),
        "name  what\na     one two\n      three\n"
    );
}

#[test]
fn sentences_follow_each_other_and_tables_are_apart() {
    let note = || Block::Note("note".to_owned());
    let blocks = [
        Block::text("one"),
        Block::Detail(Cell::from("two"), "because".to_owned()),
        Block::Table(table(&["a"], &["1"])),
        note(),
        note(),
        Block::Facts(vec![("host".to_owned(), "a b".to_owned())]),
    ];
    assert_eq!(
        terminal(&blocks, narrow(8)),
        "one\ntwo\n  because\n\nname  x\na     1\nnote\nnote\n\nhost  a\n      b\n"
    );
}

#[test]
fn text_of_others_cannot_command_the_terminal() {
    let blocks = [
        Block::text("\x1b[2Jgone\r"),
        Block::Table(table(&["\x1b]0;title\x07"], &["1"])),
    ];
    let text = terminal(&blocks, PLAIN);
    assert!(
        !text.chars().any(|c| c.is_control() && c != '\n'),
        "{text:?}"
    );
    assert!(text.contains("\\u{1b}[2Jgone\\u{d}"), "{text}");
}

#[test]
fn a_column_of_names_is_shortened_before_another_is_left_out_and_the_titles_stay_above_their_numbers()
 {
    let name = Column {
        is_shortened: true,
        ..Column::words("name").at_least(6)
    };
    let mut table = Table::new("id", ["1"]);
    table.is_dense = true;
    table.add(name, cells(&["instance-0001"]));
    table.add(Column::numbers("rate").at_least(6), cells(&["10"]));
    table.add(Column::numbers("share").rank(1), cells(&["5 %"]));
    let shown = |width| {
        let TableLines { titles, rows } = table_lines(&table, width);
        let places: Vec<usize> = titles.iter().map(|(place, _)| *place).collect();
        let titles: String = titles.into_iter().map(|(_, title)| title).collect();
        (places, [titles, rows[0].clone()])
    };
    let wide = [
        "id name            rate share",
        "1  instance-0001     10   5 %",
    ];
    assert_eq!(shown(40), (vec![0, 1, 2, 3], wide.map(str::to_owned)));
    let short = ["id name     rate share", "1  ins…01     10   5 %"];
    assert_eq!(shown(22), (vec![0, 1, 2, 3], short.map(str::to_owned)));
    // Without the column of shares, there is more room for the name.
    let without = ["id name         rate", "1  insta…0001     10"];
    assert_eq!(shown(20), (vec![0, 1, 2], without.map(str::to_owned)));
}

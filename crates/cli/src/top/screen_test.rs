use super::*;
use crate::top::text::tests::vm;

fn table(count: u32) -> TopInterval {
    let vms = (1..=count).map(|pid| Vm {
        pid,
        name: Some(format!("guest-{pid}")),
        ..vm()
    });
    TopInterval {
        vms: vms.collect(),
        seconds: 1.0,
        ..TopInterval::default()
    }
}

/// The screen after these keys; after each, it is scrolled to fit ten lines.
fn after(keys: &[Key], table: &TopInterval) -> TopScreen {
    let mut screen = TopScreen::new(Duration::from_secs(1));
    screen.fit(table, 10, 1);
    for key in keys {
        assert_eq!(screen.press(*key, table), Action::Nothing);
        screen.fit(table, 10, 1);
    }
    screen
}

fn typed(text: &str) -> Vec<Key> {
    text.chars().map(Key::Char).collect()
}

/// The PID and the line of the cursor.
fn cursor(screen: &TopScreen, table: &TopInterval) -> (u32, usize) {
    let rows = screen.rows(table);
    let row = &rows[screen.position(&rows)];
    (row.vm.0, row.line)
}

fn pids(screen: &TopScreen, table: &TopInterval) -> Vec<u32> {
    let rows = screen.rows(table);
    rows.iter().map(|row| row.vm.0).collect()
}

#[test]
fn arrows_pages_and_ends_move_the_cursor_and_the_lines_follow() {
    let table = table(60);
    let at = |keys: &[Key]| {
        let screen = after(keys, &table);
        (cursor(&screen, &table).0, screen.top())
    };
    assert_eq!(at(&[]), (1, 0));
    assert_eq!(at(&[Key::Up]), (1, 0));
    assert_eq!(at(&[Key::Down, Key::Down]), (3, 0));
    assert_eq!(at(&[Key::PageDown]), (10, 0));
    assert_eq!(at(&[Key::PageDown, Key::Down]), (11, 1));
    assert_eq!(at(&[Key::End]), (60, 50));
    assert_eq!(at(&[Key::End, Key::Down]), (60, 50));
    assert_eq!(at(&[Key::End, Key::PageUp, Key::Up]), (50, 49));
    assert_eq!(at(&[Key::End, Key::Home]), (1, 0));
}

#[test]
fn enter_opens_a_vm_and_closes_it_from_each_of_its_lines() {
    let table = table(3);
    let screen = after(&[Key::Down, Key::Char('\n')], &table);
    let lines = pids(&screen, &table);
    assert_eq!((lines[0], lines[1], lines[2]), (1, 2, 2));
    assert_eq!(lines.last(), Some(&3));
    assert_eq!(cursor(&screen, &table), (2, 0));
    let texts: Vec<String> = screen
        .rows(&table)
        .iter()
        .filter_map(|row| match &row.content {
            Content::Vm(_) => None,
            Content::Titles(text) | Content::Text(text) => Some(text.clone()),
        })
        .collect();
    assert_eq!(texts[0], "name: qemu:guest-2");
    assert_eq!(texts[1], "vCPUs, with their threads: 0 (4720), 1 (4721)");
    assert!(texts[2].starts_with("ADDRESS OR REASON"), "{texts:?}");
    assert!(texts[3].starts_with("mmio 0xfebf1000"), "{texts:?}");

    let keys = [
        Key::Down,
        Key::Char(' '),
        Key::Down,
        Key::Down,
        Key::Char(' '),
    ];
    let screen = after(&keys, &table);
    assert_eq!(pids(&screen, &table), [1, 2, 3]);
    assert_eq!(cursor(&screen, &table), (2, 0));
}

#[test]
fn the_cursor_follows_its_vm_when_the_order_changes_and_stays_when_the_vm_ends() {
    let mut table = table(5);
    let mut screen = after(&[Key::Down], &table);
    table.vms[1].cpu = Some(100);
    screen.fit(&table, 10, 1);
    assert_eq!(pids(&screen, &table), [2, 1, 3, 4, 5]);
    assert_eq!(cursor(&screen, &table), (2, 0));
    let _ = screen.press(Key::Down, &table);
    screen.fit(&table, 10, 1);
    table.vms.remove(0);
    assert_eq!(pids(&screen, &table), [2, 3, 4, 5]);
    assert_eq!(cursor(&screen, &table), (3, 0));
    table.vms.truncate(1);
    assert_eq!(cursor(&screen, &table), (2, 0));
    table.vms.clear();
    screen.fit(&table, 10, 1);
    assert_eq!(screen.press(Key::Char('\n'), &table), Action::Nothing);
    assert_eq!(screen.press(Key::End, &table), Action::Nothing);
}

#[test]
fn vms_of_one_process_without_a_descriptor_are_told_apart() {
    let mut table = table(2);
    for vm in &mut table.vms {
        (vm.pid, vm.fd) = (7, None);
    }
    let screen = after(&[Key::Down, Key::Char('\n')], &table);
    let rows = screen.rows(&table);
    let first_of_second = rows.iter().position(|row| row.vm == (7, None, 1));
    assert_eq!(first_of_second, Some(1));
    assert!(rows.len() > 2);
}

#[test]
fn keys_choose_the_column_that_sorts_and_its_direction() {
    let table = table(3);
    let sort = |keys: &str| {
        let screen = after(&typed(keys), &table);
        (screen.sort, screen.is_reversed)
    };
    assert_eq!(sort(""), (VmColumn::Core, false));
    assert_eq!(sort(">"), (VmColumn::Exits, false));
    assert_eq!(sort("<"), (VmColumn::Vcpus, false));
    assert_eq!(sort("N<"), (VmColumn::PvEois, false));
    assert_eq!(sort("N<>I"), (VmColumn::Pid, true));
    assert_eq!(sort("NP"), (VmColumn::Core, false));
    assert_eq!(sort("V"), (VmColumn::ToVmm, false));
    assert_eq!(sort("E"), (VmColumn::Exits, false));
    assert_eq!(pids(&after(&typed("NI"), &table), &table), [3, 2, 1]);
    let by_f6 = after(&[Key::F(6)], &table);
    assert_eq!(by_f6.sort, VmColumn::Exits);
}

#[test]
fn a_filter_shows_vms_with_its_text_in_their_name_or_pid() {
    let mut table = table(3);
    table.vms[2].pid = 4711;
    let shown = |keys: Vec<Key>| {
        let screen = after(&keys, &table);
        pids(&screen, &table)
    };
    assert_eq!(shown(typed("/GUEST-2\n")), [2]);
    assert_eq!(shown([vec![Key::F(4)], typed("71")].concat()), [4711]);
    // Here, letters are text and not commands.
    assert_eq!(shown(typed("/q\n")), [1, 2, 4711]);
    assert!(shown(typed("/nothing")).is_empty());
    let erased = [typed("/2x"), vec![Key::Backspace]].concat();
    assert_eq!(shown(erased), [2]);
    assert_eq!(shown([typed("/2"), vec![Key::Esc]].concat()), [1, 2, 4711]);
    assert_eq!(
        shown([typed("/2\n"), vec![Key::Esc]].concat()),
        [1, 2, 4711]
    );
}

#[test]
fn the_delay_is_typed_or_halved_and_doubled_within_limits() {
    let table = table(1);
    let delay = |keys: &str| after(&typed(keys), &table).delay.as_millis();
    assert_eq!(delay("d2.5\n"), 2500);
    assert_eq!(delay("d300ms\n"), 300);
    assert_eq!(delay("+"), 2000);
    assert_eq!(delay("-"), 500);
    assert_eq!(delay("-----------"), 100);
    assert_eq!(delay("++++++++++"), 60_000);
    // A typed delay is not limited.
    assert_eq!(delay("d90\n+"), 90_000);
    assert_eq!(delay("d10ms\n-"), 10);
    let screen = after(&typed("d0\n"), &table);
    let Mode::Delay { error: Some(_), .. } = screen.mode else {
        panic!("{screen:?}");
    };
    assert_eq!(screen.delay.as_millis(), 1000);
    let screen = after(&[Key::Char('d'), Key::Char('5'), Key::Esc], &table);
    assert_eq!(
        (screen.mode, screen.delay.as_millis()),
        (Mode::Browse, 1000)
    );
}

#[test]
fn the_screen_ends_at_q_f10_and_ctrl_c_and_ctrl_c_ends_it_in_every_mode() {
    let table = table(1);
    for key in [Key::Char('q'), Key::F(10), Key::Ctrl('c')] {
        assert_eq!(after(&[], &table).press(key, &table), Action::Quit);
    }
    for mode in [Key::F(1), Key::Char('?'), Key::Char('/'), Key::Char('d')] {
        let mut screen = after(&[mode], &table);
        assert_ne!(screen.mode, Mode::Browse);
        assert_eq!(screen.press(Key::Ctrl('c'), &table), Action::Quit);
    }
    let mut screen = after(&[], &table);
    assert_eq!(screen.press(Key::Ctrl('z'), &table), Action::Suspend);
    assert_eq!(screen.press(Key::Ctrl('l'), &table), Action::Repaint);
    // Any other key only closes help.
    assert_eq!(after(&typed("hq"), &table).mode, Mode::Browse);
}

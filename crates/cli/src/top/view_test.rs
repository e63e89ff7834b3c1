use std::collections::BTreeMap;
use std::time::Duration;

use ratatui_core::backend::TestBackend;
use ratatui_core::terminal::Terminal;
use ratatui_termion::termion::event::Key;

use super::*;
use crate::top::text::tests::vm;
use vmbell_top::model::{Irqfd, Reason, Vm};

/// The terminal's content with this size after these keys.
fn shown(size: (u16, u16), table: Option<&TopInterval>, keys: &[Key]) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).unwrap();
    let mut screen = TopScreen::new(Duration::from_secs(1));
    let mut draw = |screen: &mut TopScreen| {
        let frame = terminal.draw(|frame| super::draw(frame, screen, table));
        let buffer = frame.unwrap().buffer;
        let lines = buffer.content().chunks(usize::from(size.0));
        let text = lines.map(|cells| cells.iter().map(|cell| cell.symbol()).collect::<String>());
        text.map(|line| line.trim_end().to_owned()).collect()
    };
    let mut lines = draw(&mut screen);
    for key in keys {
        let _ = screen.press(*key, table.unwrap_or(&TopInterval::default()));
        lines = draw(&mut screen);
    }
    lines
}

fn table(vms: Vec<Vm>) -> TopInterval {
    TopInterval {
        vms,
        seconds: 2.0,
        sources: vec!["bpf", "counters"],
        lost: Some(0),
        own_cores: 0.018,
        ..TopInterval::default()
    }
}

fn numbered(count: u32) -> Vec<Vm> {
    let vms = (1..=count).map(|pid| Vm { pid, ..vm() });
    vms.collect()
}

const SMALL: (u16, u16) = (80, 24);

#[test]
fn an_open_vm_has_its_vcpus_reasons_addresses_and_irqfds_below_it() {
    let mut open = vm();
    open.irqfds.push(Irqfd {
        gsi: 24,
        count: 206,
        by_worker: 0,
        first_signaller: Some(144),
    });
    open.exits.push(Reason {
        name: "npf".to_owned(),
        by_vcpu: BTreeMap::from([(0, 60), (1, 30)]),
    });
    let mut table = table(vec![open]);
    table.threads = BTreeMap::from([(144, "vhost-4711".to_owned())]);
    let lines = shown(SMALL, Some(&table), &[Key::Char('\n')]);
    let expected = "\
vmbell top  1 VM  every 1 s  bpf, counters  own cost 0.02 core  lost 0
    PID VM         vCPU  CORE EXITS/s   VMM/s RINGS/s IRQFD/s IOCTL/s EOI/s   PV
   4711 qemu:…er-1    2  0.00    310k    212k    3100       -     1.5   100  93%
  name: qemu:web-server-1
  vCPUs, with their threads: 0 (4720), 1 (4721)
  vCPU  EXITS/s BY REASON
   all  npf 45
     0  npf 30
     1  npf 15
  ADDRESS OR REASON  ACCESS  VMM/s  RINGS/s  WHAT
  mmio 0xfebf1000    w2          0     3100  virtio-pci notify?, fd 8, eventfd …
  port 0x608         r4        1.5        0
  hlt                          0.5        0
  GSI  IRQFD/s  WORKER/s  FIRST SIGNALLED BY
   24      103         0  vhost-4711 (144)";
    assert_eq!(lines[..15].join("\n"), expected);
    assert!(lines[15..23].iter().all(String::is_empty));
    assert_eq!(lines[23], KEYS);

    // Scroll to the rest of a long line and back: only the lines below VMs move.
    let keys = [&[Key::Char('\n')][..], &[Key::Right; 5]].concat();
    let moved = shown(SMALL, Some(&table), &keys);
    assert_eq!(moved[..3], lines[..3]);
    let rest = "  0  virtio-pci notify?, fd 8, eventfd 32, not open in the VMM";
    assert!(moved[10].ends_with(rest), "{moved:?}");
    let back = [&keys[..], &[Key::Left; 6]].concat();
    assert_eq!(shown(SMALL, Some(&table), &back), lines);
}

#[test]
fn no_vm_is_said_and_so_is_a_filter_that_no_vm_passes() {
    let lines = shown(SMALL, Some(&table(Vec::new())), &[]);
    assert!(lines[0].starts_with("vmbell top  0 VMs "), "{lines:?}");
    assert_eq!(lines[2], "no VM runs on KVM here");
    let keys = [Key::Char('/'), Key::Char('z')];
    let lines = shown(SMALL, Some(&table(numbered(2))), &keys);
    assert_eq!(
        (&*lines[2], &*lines[23]),
        ("no VM passes the filter", "filter: z_")
    );
}

#[test]
fn the_first_interval_is_announced() {
    let lines = shown(SMALL, None, &[]);
    assert_eq!(lines[0], "vmbell top  every 1 s");
    assert_eq!(lines[1], "counting for 1 s");
}

#[test]
fn sixty_vms_are_scrolled_to_the_last_one() {
    let lines = shown(SMALL, Some(&table(numbered(60))), &[Key::End]);
    let pids: Vec<&str> = lines[2..23]
        .iter()
        .map(|line| line.split_whitespace().next().unwrap())
        .collect();
    let expected: Vec<String> = (40..=60).map(|pid: u32| pid.to_string()).collect();
    assert_eq!(pids, expected);
}

#[test]
fn what_is_missing_is_below_the_table_lost_events_are_in_the_title_and_uncounted_cells_are_dashes()
{
    let mut table = table(vec![Vm {
        counts: BTreeMap::new(),
        cpu: None,
        ..vm()
    }]);
    table.sources = vec!["counters"];
    table.notes = vec!["no bpf: it needs CAP_SYS_ADMIN: and a reason that does not fit into the line of a terminal".to_owned()];
    table.lost = None;
    let lines = shown(SMALL, Some(&table), &[]);
    assert_eq!(
        lines[0],
        "vmbell top  1 VM  every 1 s  counters  own cost 0.02 core  lost -"
    );
    assert!(lines[22].starts_with("no bpf: it needs") && lines[22].ends_with('…'));
    assert_eq!(
        lines[2],
        "   4711 qemu:…er-1    2     -    310k       -       -       -       -     -    -"
    );
    table.lost = Some(12);
    table.notes = (0..6).map(|note| format!("note {note}")).collect();
    let lines = shown(SMALL, Some(&table), &[]);
    assert!(lines[0].ends_with("lost 12"));
    assert_eq!(
        lines[19..23],
        ["note 0", "note 1", "note 2", "3 more notes: press F1"]
    );
    let help = shown((80, 40), Some(&table), &[Key::F(1)]);
    assert!(help.contains(&"note 5".to_owned()), "{help:?}");
}

#[test]
fn help_has_a_page_for_each_screen_so_that_no_note_is_missing() {
    let mut table = table(numbered(1));
    table.notes = (0..6).map(|note| format!("note {note}")).collect();
    let pages = |keys: usize| {
        let keys = vec![Key::F(1); keys];
        shown((60, 15), Some(&table), &keys)
    };
    let [first, second] = [1, 2].map(pages);
    assert!(first[1].starts_with("Up Down PgUp"), "{first:?}");
    assert!(first[14].starts_with("page 1 of 2: "), "{first:?}");
    assert!(second.contains(&"note 0".to_owned()), "{second:?}");
    assert!(second.contains(&"note 5".to_owned()), "{second:?}");
    assert_eq!(second[14], "press any key");
    let esc = shown((60, 15), Some(&table), &[Key::F(1), Key::Esc]);
    assert_eq!(esc, pages(0));
    assert_eq!(esc, pages(3));
}

#[test]
fn a_reversed_order_is_marked_and_moves_no_column() {
    let table = table(numbered(2));
    for presses in 0..VmColumn::ALL.len() {
        let keys = vec![Key::Char('>'); presses];
        let forward = shown(SMALL, Some(&table), &keys);
        let keys = [&keys[..], &[Key::Char('I')]].concat();
        let reversed = shown(SMALL, Some(&table), &keys);
        assert!(forward[1].starts_with("    PID VM         vCPU  CORE EXITS/s"));
        assert_eq!(reversed[1].matches('-').count(), 1, "{reversed:?}");
        assert_eq!(reversed[1].replace('-', " "), forward[1]);
        let widths = |lines: &[String]| lines[2].chars().count();
        assert_eq!(widths(&reversed), widths(&forward));
    }
}

#[test]
fn columns_that_do_not_fit_are_left_out_as_a_whole_and_named_but_not_the_one_that_is_sorted_by() {
    let size = (60, 15);
    let table = table(numbered(1));
    let lines = shown(size, Some(&table), &[]);
    let [titles, row, note] = [1, 2, 13].map(|line| &*lines[line]);
    assert_eq!(
        titles,
        "    PID VM              CORE EXITS/s   VMM/s RINGS/s IRQFD/s"
    );
    assert_eq!(
        row,
        "      1 qemu:we…rver-1  0.00    310k    212k    3100       -"
    );
    assert_eq!(note, "too narrow for vCPU, IOCTL/s, EOI/s, PV");
    // To the right of CORE: EXITS, VMM, RINGS, IRQFD, IOCTL.
    let lines = shown(size, Some(&table), &[Key::Char('>'); 5]);
    assert!(lines[1].contains(" IOCTL/s"), "{lines:?}");
}

#[test]
fn help_fits_into_a_small_terminal_and_wraps_notes_at_words() {
    let mut table = table(numbered(1));
    table.notes = vec!["word ".repeat(30).trim_end().to_owned()];
    let lines = shown(SMALL, Some(&table), &[Key::Char('?')]);
    assert!(HELP.lines().all(|line| line.chars().count() <= 80));
    assert!(lines[1].starts_with("Up Down PgUp"));
    assert_eq!(lines[20], "word ".repeat(16).trim_end());
    assert_eq!(lines[21], "word ".repeat(14).trim_end());
    assert_eq!(lines[23], "press any key");
}

#[test]
fn a_wide_terminal_shows_long_names_and_a_tiny_one_is_no_error() {
    let mut vms = numbered(1);
    vms[0].name = Some("n".repeat(100));
    let table = table(vms);
    let wide = shown((120, 30), Some(&table), &[]);
    let name = format!(" qemu:{}…{} ", "n".repeat(20), "n".repeat(24));
    assert!(wide[2].contains(&name), "{wide:?}");
    assert_eq!(wide[2].chars().count(), 120);
    let wider = shown((200, 30), Some(&table), &[]);
    assert!(wider[2].contains(&format!(" qemu:{} ", "n".repeat(100))));
    for size in [(1, 1), (10, 2), (20, 3), (40, 5)] {
        let _ = shown(size, Some(&table), &[Key::Char('\n'), Key::End, Key::F(1)]);
    }
}

#[test]
fn the_line_for_input_shows_what_is_typed_and_why_it_is_refused() {
    let keys: Vec<Key> = "dx\n".chars().map(Key::Char).collect();
    let lines = shown(SMALL, Some(&table(numbered(1))), &keys);
    assert!(lines[23].starts_with("delay: x_  "), "{lines:?}");
    let keys: Vec<Key> = "/web\n".chars().map(Key::Char).collect();
    let lines = shown(SMALL, Some(&table(numbered(1))), &keys);
    assert_eq!(lines[23], "filter: web  (Esc: all VMs)");
}

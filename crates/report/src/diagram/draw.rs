//! Where the parts of the diagram are. All lengths are in pixels; the picture is as wide as a page on GitHub.

use svg::node::element::{Description, Group, Line, Polygon, Rectangle, SVG, Style, Text, Title};

use super::arrows::{Arrow, ArrowGroup, Leg, LegKind, Party, Reach};

const WIDTH: u32 = 800;
const MARGIN: u32 = 12;
/// The width of the lanes of guest, kernel and VMM.
const LANE: u32 = 92;
/// The distance between lanes.
pub(super) const GAP: u32 = (WIDTH - 2 * MARGIN - 3 * LANE) / 2;
/// The distance of the shared memory from the guest.
const MEMORY: u32 = 24;
/// Where lanes begin, and how far below that their arrows begin.
const TOP: u32 = 72;
const HEAD: u32 = 48;
/// The height of an arrow with one line, and of each further line.
const ONE_LINE: u32 = 44;
const NEXT_LINE: u32 = 30;
/// The space above and below a group.
const PADDING: u32 = 5;

const TITLE: &str = "What notifications between a guest and its host cost";

/// The texts that differ from report to report.
#[derive(Debug)]
pub(super) struct Caption {
    /// What the numbers are.
    pub(super) what: &'static str,
    /// Where and when the numbers were measured.
    pub(super) made: String,
    /// The title of the middle lane, and a description of it.
    pub(super) kernel: [&'static str; 2],
}

/// The groups, each with its arrows and their costs.
pub(super) type Costs = Vec<(&'static ArrowGroup, Vec<(&'static Arrow, String)>)>;

pub(super) fn draw(caption: &Caption, costs: &Costs) -> SVG {
    let arrows = costs.iter().flat_map(|(_, arrows)| arrows);
    let heights = arrows.map(|(arrow, _)| height(arrow)).sum::<u32>();
    let groups = u32::try_from(costs.len()).unwrap_or(u32::MAX);
    let bottom = TOP + HEAD + heights + groups * 2 * PADDING;
    let mut picture = SVG::new()
        .set("viewBox", (0, 0, WIDTH, bottom + 34))
        .set("width", WIDTH)
        .set("height", bottom + 34)
        .set("role", "img")
        .set("aria-labelledby", "title description")
        .add(Title::new(TITLE).set("id", "title"))
        .add(
            Description::new()
                .set("id", "description")
                .add(svg::node::Text::new(description(caption, costs))),
        )
        .add(Style::new(include_str!("style.css").trim_end()))
        .add(
            Rectangle::new()
                .set("class", "ground")
                .set("width", WIDTH)
                .set("height", bottom + 34)
                .set("rx", 6),
        )
        .add(text("title", MARGIN, 28, TITLE))
        .add(text("note", MARGIN, 47, caption.what))
        .add(text("note", MARGIN, 63, &caption.made));
    let lanes = [
        (Party::Guest, ["guest", "vCPU"]),
        (Party::Kernel, caption.kernel),
        (Party::Vmm, ["VMM", "device model"]),
    ];
    for (party, [name, what]) in lanes {
        let middle = left(party) + LANE / 2;
        let lane = Rectangle::new()
            .set("class", "lane")
            .set("x", left(party))
            .set("y", TOP)
            .set("width", LANE)
            .set("height", bottom - TOP)
            .set("rx", 6);
        picture = picture
            .add(lane)
            .add(centred("party", middle, TOP + 21, name))
            .add(centred("note", middle, TOP + 38, what));
    }
    let mut y = TOP + HEAD;
    for (place, (group, arrows)) in costs.iter().enumerate() {
        if place > 0 {
            picture = picture.add(across("rule", left(Party::Guest), right(Party::Vmm), y));
        }
        let top = y;
        y += PADDING;
        for (arrow, cost) in arrows {
            picture = picture.add(drawing(arrow, cost, y));
            y += height(arrow);
        }
        y += PADDING;
        let middle = u32::midpoint(top, y);
        let x = left(Party::Guest) + LANE / 2;
        for (line, words) in [middle - 3, middle + 12].into_iter().zip(group.caption) {
            picture = picture.add(centred("", x, line, words));
        }
    }
    picture.add(legend(bottom + 21))
}

/// The whole picture in words, for readers who cannot see it.
fn description(caption: &Caption, costs: &Costs) -> String {
    let mut text = format!("{}. {}.", caption.what, caption.made);
    for (group, arrows) in costs {
        let arrows = arrows.iter();
        let arrows = arrows.map(|(arrow, cost)| format!("{}: {cost} ({})", arrow.label, arrow.row));
        let arrows = arrows.collect::<Vec<_>>().join("; ");
        text += &format!(" {}: {arrows}.", group.caption.join(" "));
    }
    text
}

fn height(arrow: &Arrow) -> u32 {
    match arrow.lines() {
        0 | 1 => ONE_LINE,
        lines => ONE_LINE + (lines - 1) * NEXT_LINE,
    }
}

/// An arrow below `y`: its label is above its first line and its cost below.
fn drawing(arrow: &Arrow, cost: &str, y: u32) -> Group {
    let class = class(arrow.reach);
    let near = right(Party::Guest) + GAP / 2;
    let far = right(Party::Kernel) + GAP / 2;
    let mut group = Group::new();
    for leg in arrow.legs {
        group = group.add(shaft(class, *leg, y + 20 + leg.line * NEXT_LINE));
    }
    let [back_near, back_far] = arrow.back;
    let below = y + 20 + NEXT_LINE + 15;
    let cost_class = format!("cost {class}");
    let texts = [
        ("", near, y + 14, arrow.label),
        (&*cost_class, near, y + 36, cost),
        ("note", far, y + 14, arrow.far),
        ("row", far, y + 35, arrow.row),
        ("note", near, below, back_near),
        ("note", far, below, back_far),
    ];
    for (class, x, y, words) in texts {
        if !words.is_empty() {
            group = group.add(centred(class, x, y, words));
        }
    }
    group
}

/// A leg at height `y`, with its heads.
fn shaft(class: &str, leg: Leg, y: u32) -> Group {
    let class = match leg.kind {
        LegKind::Uncounted => "uncounted",
        LegKind::Answered | LegKind::Sent => class,
    };
    let (from, to) = if leg.from < leg.to {
        (right(leg.from), left(leg.to))
    } else {
        (left(leg.from), right(leg.to))
    };
    let mut group = Group::new().add(across(class, from, to, y));
    group = group.add(head(class, from, to, y));
    if leg.kind == LegKind::Answered {
        group = group.add(head(class, to, from, y));
    }
    if leg.to == Party::Memory {
        let bit = Rectangle::new()
            .set("class", class)
            .set("x", to)
            .set("y", y - 5)
            .set("width", 10)
            .set("height", 10);
        group = group.add(bit);
    }
    group
}

/// The head of an arrow that comes from `from` and ends at `to`.
fn head(class: &str, from: u32, to: u32, y: u32) -> Polygon {
    let base = if from < to { to - 9 } else { to + 9 };
    let points = format!("{to},{y} {base},{} {base},{}", y - 5, y + 5);
    Polygon::new().set("class", class).set("points", points)
}

/// What the colours and dashes mean.
fn legend(y: u32) -> Group {
    let entries = [
        (class(Reach::Vmm), "exit to the VMM"),
        (class(Reach::Kernel), "no exit to the VMM"),
        (class(Reach::Guest), "no exit"),
        ("uncounted", "follows, not counted"),
    ];
    let mut group = Group::new();
    for (x, (class, words)) in (MARGIN..).step_by(200).zip(entries) {
        group = group
            .add(across(class, x, x + 26, y - 4))
            .add(text("note", x + 34, y, words));
    }
    group
}

const fn class(reach: Reach) -> &'static str {
    match reach {
        Reach::Vmm => "vmm",
        Reach::Kernel => "kernel",
        Reach::Guest => "guest",
    }
}

const fn left(party: Party) -> u32 {
    match party {
        Party::Guest => MARGIN,
        Party::Memory => right(Party::Guest) + MEMORY,
        Party::Kernel => MARGIN + LANE + GAP,
        Party::Vmm => MARGIN + 2 * (LANE + GAP),
    }
}

const fn right(party: Party) -> u32 {
    left(party) + LANE
}

fn across(class: &str, from: u32, to: u32, y: u32) -> Line {
    Line::new()
        .set("class", class)
        .set("x1", from)
        .set("x2", to)
        .set("y1", y)
        .set("y2", y)
}

fn text(class: &str, x: u32, y: u32, words: &str) -> Text {
    let text = Text::new(words).set("x", x).set("y", y);
    match class {
        "" => text,
        class => text.set("class", class),
    }
}

fn centred(class: &str, x: u32, y: u32, words: &str) -> Text {
    text(class, x, y, words).set("text-anchor", "middle")
}

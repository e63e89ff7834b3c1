//! A quota of CPU time on this process's control group or one of its parents: `cpu.max` of version 2, or
//! `cpu.cfs_quota_us` of version 1. If both versions are mounted, only one of them has the controller `cpu`.

use super::finding::{Finding, Severity};
use super::tree::HostFiles;

/// This process's group and its parents in one hierarchy.
#[derive(Debug)]
struct QuotaGroups {
    /// Where the hierarchy is mounted.
    mount: String,
    /// This process's group below the mount; empty or with a leading slash.
    own: String,
    read: fn(&HostFiles, &str) -> Option<Quota>,
}

#[derive(Debug)]
struct Quota {
    file: String,
    /// The quota and its period, in microseconds.
    limit: String,
    /// The value that lifts the limit when written to the file.
    unlimited: &'static str,
}

/// The quota of the nearest group that has one.
pub(super) fn find(tree: &HostFiles) -> Option<Finding> {
    hierarchies(tree)
        .iter()
        .find_map(|groups| nearest(tree, groups))
}

/// The hierarchies in which this process may have a quota, from `/proc/self/cgroup`: lines `ID:CONTROLLERS:GROUP`.
fn hierarchies(tree: &HostFiles) -> Vec<QuotaGroups> {
    let text = |name| tree.text(name).ok().flatten().unwrap_or_default();
    let mounts = text("/proc/self/mountinfo");
    let groups = text("/proc/self/cgroup");
    let hierarchy = |line: &str| {
        let mut parts = line.trim().splitn(3, ':').skip(1);
        let (controllers, group) = (parts.next()?, parts.next()?);
        let (mount, read): (_, fn(&HostFiles, &str) -> _) = match controllers {
            "" => (mount(&mounts, "cgroup2", None), version_2),
            list if list.split(',').any(|name| name == "cpu") => {
                (mount(&mounts, "cgroup", Some("cpu")), version_1)
            }
            _ => return None,
        };
        let default = || match controllers {
            "" => ("/".to_owned(), "/sys/fs/cgroup".to_owned()),
            list => ("/".to_owned(), format!("/sys/fs/cgroup/{list}")),
        };
        let (root, mount) = mount.unwrap_or_else(default);
        // In a container, the mount may begin at the container's group; groups above it are not visible.
        let below = group.strip_prefix(root.trim_end_matches('/'));
        let is_below = |below: &&str| {
            let mut parts = below.split('/');
            parts.next() == Some("") && !parts.any(|part| part == "..")
        };
        let below = below.filter(is_below);
        let own = below.unwrap_or_default().trim_end_matches('/').to_owned();
        Some(QuotaGroups { mount, own, read })
    };
    groups.lines().filter_map(hierarchy).collect()
}

/// The root within the hierarchy and the mount point of the last mount of this type with this controller, from
/// `/proc/self/mountinfo`.
fn mount(mounts: &str, of: &str, controller: Option<&str>) -> Option<(String, String)> {
    let mount = |line: &str| {
        // `ID PARENT DEVICE ROOT PLACE OPTIONS [TAGS] - TYPE SOURCE OPTIONS`
        let (start, end) = line.split_once(" - ")?;
        let mut end = end.split(' ');
        let (found, options) = (end.next()?, end.nth(1)?);
        let has = |name| options.split(',').any(|option| option == name);
        let mut start = start.split(' ').skip(3);
        let (root, place) = (start.next()?.to_owned(), start.next()?.to_owned());
        (found == of && controller.is_none_or(has)).then_some((root, place))
    };
    mounts.lines().filter_map(mount).next_back()
}

fn nearest(tree: &HostFiles, groups: &QuotaGroups) -> Option<Finding> {
    let mut group = &*groups.own;
    loop {
        let folder = format!("{}{group}", groups.mount);
        if let Some(quota) = (groups.read)(tree, &folder) {
            return Some(finding(tree, &folder, quota));
        }
        (group, _) = group.rsplit_once('/')?;
    }
}

fn version_2(tree: &HostFiles, folder: &str) -> Option<Quota> {
    let file = format!("{folder}/cpu.max");
    let limit = tree.line(&file).ok().flatten()?;
    (!limit.starts_with("max")).then_some(Quota {
        file,
        limit,
        unlimited: "max",
    })
}

fn version_1(tree: &HostFiles, folder: &str) -> Option<Quota> {
    let number = |name| {
        tree.line(&format!("{folder}/cpu.cfs_{name}_us"))
            .ok()
            .flatten()
    };
    let quota = number("quota").filter(|quota| !quota.starts_with('-'))?;
    let period = number("period").unwrap_or_default();
    Some(Quota {
        file: format!("{folder}/cpu.cfs_quota_us"),
        limit: format!("{quota} {period}").trim_end().to_owned(),
        unlimited: "-1",
    })
}

fn finding(tree: &HostFiles, folder: &str, quota: Quota) -> Finding {
    let Quota {
        file,
        limit,
        unlimited,
    } = quota;
    let finding = Finding::new(
        Severity::Distorts,
        (
            format!("the control group may use {limit} us of CPU time (quota and period)"),
            file,
        ),
        "once the quota is used up, the process is stopped for the rest of the period, which looks like a slow operation",
        &format!("measure outside the group, or write {unlimited} to that file"),
    );
    let stat = tree.text(&format!("{folder}/cpu.stat")).ok().flatten();
    let stat = stat.unwrap_or_default();
    let throttled = stat
        .lines()
        .find_map(|line| line.strip_prefix("nr_throttled "));
    match throttled {
        Some(times) => finding.costing(format!("stopped {} times so far", times.trim())),
        None => finding,
    }
}

#[cfg(test)]
#[path = "quota_test.rs"]
mod tests;

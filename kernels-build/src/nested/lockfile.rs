//! Which packages depend on which, from Cargo.lock.

use std::collections::{BTreeMap, BTreeSet};

/// Names of the packages in a lock that depend on `package`, directly or not; and `package` itself.
pub(crate) fn dependents(lock: &str, package: &str) -> BTreeSet<String> {
    let mut users: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (user, used) in pairs(lock) {
        users.entry(used).or_default().push(user);
    }
    reach(&users, package)
}

/// Names of the packages in a lock that `package` depends on, directly or not; and `package` itself.
pub(crate) fn dependencies(lock: &str, package: &str) -> BTreeSet<String> {
    let mut used_by: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (user, used) in pairs(lock) {
        used_by.entry(user).or_default().push(used);
    }
    reach(&used_by, package)
}

/// Each package with each of its direct dependencies.
fn pairs(lock: &str) -> Vec<(&str, &str)> {
    let mut pairs = Vec::new();
    let (mut name, mut in_list) = ("", false);
    for line in lock.lines().map(str::trim) {
        if line == "[[package]]" {
            name = "";
        } else if let Some(value) = line.strip_prefix("name = ") {
            name = value.trim_matches('"');
        } else if line.starts_with("dependencies = [") {
            in_list = !line.ends_with(']');
        } else if line == "]" {
            in_list = false;
        } else if in_list {
            // `"name"`, or `"name version"` where there are several.
            pairs.push((name, line.trim_matches(|c| c == '"' || c == ',').split(' ').next().unwrap_or_default()));
        }
    }
    pairs
}

fn reach(edges: &BTreeMap<&str, Vec<&str>>, start: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open = vec![start];
    while let Some(package) = open.pop() {
        if found.insert(package.to_owned()) {
            open.extend(edges.get(package).into_iter().flatten());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    #[test]
    fn both_directions_are_followed() {
        let lock = "version = 4\n\n[[package]]\nname = \"app\"\nversion = \"1.0.0\"\ndependencies = [\n \"mid\",\n \
                    \"other\",\n]\n\n[[package]]\nname = \"mid\"\nversion = \"1.0.0\"\ndependencies = [\n \
                    \"warpsmith 0.1.0\",\n]\n\n[[package]]\nname = \"other\"\nversion = \"2.0.0\"\n\n\
                    [[package]]\nname = \"warpsmith\"\nversion = \"0.1.0\"\n";
        let found = super::dependents(lock, "warpsmith");
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["app", "mid", "warpsmith"]);
        let found = super::dependencies(lock, "app");
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["app", "mid", "other", "warpsmith"]);
    }
}

//! Which packages depend on warpsmith, from Cargo.lock.

use std::collections::{BTreeMap, BTreeSet};

/// Names of the packages in a lock that depend on `package`, directly or not; and `package` itself.
pub(crate) fn dependents(lock: &str, package: &str) -> BTreeSet<String> {
    let mut users: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
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
            let dependency = line.trim_matches(|c| c == '"' || c == ',').split(' ').next().unwrap_or_default();
            users.entry(dependency).or_default().push(name);
        }
    }
    let mut found = BTreeSet::new();
    let mut open = vec![package];
    while let Some(package) = open.pop() {
        if found.insert(package.to_owned()) {
            open.extend(users.get(package).into_iter().flatten());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    #[test]
    fn dependents_are_followed() {
        let lock = "version = 4\n\n[[package]]\nname = \"app\"\nversion = \"1.0.0\"\ndependencies = [\n \"mid\",\n \
                    \"other\",\n]\n\n[[package]]\nname = \"mid\"\nversion = \"1.0.0\"\ndependencies = [\n \
                    \"warpsmith 0.1.0\",\n]\n\n[[package]]\nname = \"other\"\nversion = \"2.0.0\"\n\n\
                    [[package]]\nname = \"warpsmith\"\nversion = \"0.1.0\"\n";
        let found = super::dependents(lock, "warpsmith");
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["app", "mid", "warpsmith"]);
    }
}

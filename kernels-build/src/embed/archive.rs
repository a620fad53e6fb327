//! A static library of objects with one symbol each, in the `ar` format with its symbol index.

const MAGIC: &[u8] = b"!<arch>\n";
const HEADER_LEN: usize = 60;

/// An object of an archive.
pub(super) struct Member<'a> {
    /// At most 15 characters.
    pub(super) name: &'a str,
    pub(super) object: &'a [u8],
    /// The one symbol that it defines for others.
    pub(super) symbol: &'a str,
}

/// An archive of these members; their lengths stay below 4 GiB together.
pub(super) fn archive(members: &[Member<'_>]) -> Vec<u8> {
    let names: usize = members.iter().map(|member| member.symbol.len() + 1).sum();
    let index_len = (4 + 4 * members.len() + names).next_multiple_of(2);
    let mut index = number(members.len()).to_vec();
    let mut at = MAGIC.len() + HEADER_LEN + index_len;
    for member in members {
        index.extend(number(at));
        at += HEADER_LEN + member.object.len().next_multiple_of(2);
    }
    for member in members {
        index.extend(member.symbol.as_bytes());
        index.push(0);
    }
    index.resize(index_len, 0);
    let mut out = MAGIC.to_vec();
    put(&mut out, "/", &index);
    for member in members {
        put(&mut out, &format!("{}/", member.name), member.object);
    }
    out
}

fn number(value: usize) -> [u8; 4] {
    u32::try_from(value).expect("kernels of a library take less than 4 GiB").to_be_bytes()
}

fn put(out: &mut Vec<u8>, name: &str, data: &[u8]) {
    let header = format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, 644, data.len());
    assert_eq!(header.len(), HEADER_LEN, "the fields of an archive's header have fixed widths");
    out.extend(header.as_bytes());
    out.extend(data);
    if out.len() % 2 == 1 {
        out.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use object::read::archive::ArchiveFile;

    #[test]
    fn other_readers_understand_it() {
        let all = [(&b"odd"[..], "even_", "kernels.o"), (b"even", "odd", "checked.o"), (b"", "s", "third.o")];
        for count in 1..=all.len() {
            for first in 0..=all.len() - count {
                let chosen = &all[first..first + count];
                let members: Vec<_> =
                    chosen.iter().map(|&(object, symbol, name)| super::Member { name, object, symbol }).collect();
                let bytes = super::archive(&members);
                let archive = ArchiveFile::parse(&*bytes).expect("an archive");
                let read: Vec<_> = archive.members().map(|member| member.expect("a member")).collect();
                let symbols: Vec<_> = archive.symbols().expect("an index").expect("an index").collect();
                assert_eq!((read.len(), symbols.len()), (count, count));
                for ((member, symbol), expected) in read.iter().zip(symbols).zip(chosen) {
                    assert_eq!(member.name(), expected.2.as_bytes());
                    assert_eq!(member.data(&*bytes).expect("data"), expected.0);
                    let symbol = symbol.expect("a symbol");
                    assert_eq!(symbol.name(), expected.1.as_bytes());
                    assert_eq!(archive.member(symbol.offset()).expect("its member").name(), expected.2.as_bytes());
                }
            }
        }
    }
}

//! Arguments of the commands that work on the store.

use clap::{Args, ValueEnum};
use kbench_store::{RunName, Selector};
use std::path::PathBuf;

/// Which store.
#[derive(Args, Clone, Debug)]
pub struct StoreFile {
    /// The file that runs are kept in; by default kbench.db in the user's data folder
    #[arg(long = "store", value_name = "FILE")]
    pub path: Option<PathBuf>,
}

/// Arguments of `history`.
#[derive(Args, Debug)]
pub struct HistoryArgs {
    /// Cases whose id holds this, or is of this pattern (with * or ?); all without
    pub case: Option<String>,
    /// Only runs of this name
    #[arg(long, value_name = "NAME")]
    pub name: Option<RunName>,
    /// Only runs on this device (as `kbench show` prints it)
    #[arg(long, value_name = "NAME")]
    pub device: Option<String>,
    /// Only the newest N runs
    #[arg(long, value_name = "N")]
    pub last: Option<u32>,
    /// Output format
    #[arg(long, default_value = "table", value_name = "FORMAT")]
    pub format: HistoryFormat,
    /// Where runs are.
    #[command(flatten)]
    pub store: StoreFile,
}

/// `--format` of `history`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum HistoryFormat {
    /// One block a case, one line a run.
    Table,
    /// A list of points.
    Json,
    /// One line a point.
    Csv,
}

/// Arguments of `show`.
#[derive(Args, Debug)]
pub struct ShowArgs {
    /// The run: main (the newest of that name), main~1 (the one before), #17; without one all runs are listed
    pub run: Option<Selector>,
    /// List the builds that stored runs used
    #[arg(long, conflicts_with = "run")]
    pub builds: bool,
    /// Read the whole file and say whether it is sound
    #[arg(long, conflicts_with_all = ["run", "builds"])]
    pub check: bool,
    /// Output format
    #[arg(long, default_value = "table", value_name = "FORMAT")]
    pub format: ShowFormat,
    /// Where runs are.
    #[command(flatten)]
    pub store: StoreFile,
}

/// `--format` of `show`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ShowFormat {
    /// Aligned columns for people.
    Table,
    /// A document.
    Json,
}

/// Arguments of `export`.
#[derive(Args, Debug)]
pub struct ExportArgs {
    /// The run
    pub run: Selector,
    /// Write to a file instead of stdout
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Where runs are.
    #[command(flatten)]
    pub store: StoreFile,
}

/// Arguments of `import`.
#[derive(Args, Debug)]
pub struct ImportArgs {
    /// Documents of runs, as `kbench -o run.json` and `kbench export` write them
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Name of the runs; by default that of the file without its ending
    #[arg(long, value_name = "NAME")]
    pub name: Option<RunName>,
    /// Where runs are.
    #[command(flatten)]
    pub store: StoreFile,
}

/// Arguments of `prune`.
#[derive(Args, Debug)]
pub struct PruneArgs {
    /// Keep the newest N runs of each name
    #[arg(long, value_name = "N")]
    pub keep: Option<u32>,
    /// Remove only runs older than this, e.g. 30d, 12h
    #[arg(long, value_name = "AGE", value_parser = age_ms)]
    pub older_than: Option<i64>,
    /// Remove these runs
    #[arg(long, value_name = "RUN", num_args = 1.., conflicts_with_all = ["keep", "older_than"])]
    pub run: Vec<Selector>,
    /// Say what would go, and remove nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Where runs are.
    #[command(flatten)]
    pub store: StoreFile,
}

/// `30d`, `12h`, `90m`: in ms.
fn age_ms(text: &str) -> Result<i64, String> {
    let bad = || "an age is needed, such as 30d, 12h or 90m".to_owned();
    let text = text.trim();
    let unit = text.chars().next_back().ok_or_else(bad)?;
    let ms = match unit {
        'd' => 86_400_000,
        'h' => 3_600_000,
        'm' => 60_000,
        _ => return Err(bad()),
    };
    let count: u32 = text[..text.len() - 1].parse().map_err(|_| bad())?;
    Ok(i64::from(count) * ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages() {
        assert_eq!(age_ms("30d"), Ok(2_592_000_000));
        assert_eq!(age_ms(" 2h "), Ok(7_200_000));
        assert_eq!(age_ms("90m"), Ok(5_400_000));
        for bad in ["", "d", "3", "-1d", "1.5d", "99999999999d", "3ß"] {
            assert!(age_ms(bad).is_err(), "{bad}");
        }
    }
}

package command

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"agenthost/pkg/loader"
)

// Without --session-db an app's sessions must be found again from each folder in which a person
// types a command, and the sessions of two projects must not mix. So the default database is next to
// the app: data/agenthost.db in the folder that contains it, which all apps of that folder share.
// An app that is a git repository has its own, inside the repository. "serve apps" and
// "run apps/hello" use the same database.
//
// Versions until 0.1.0 used data/agenthost.db in the current folder. Such a database is used while
// there is none next to the app.

// DefaultSessionDB is --session-db's default for the current folder.
const DefaultSessionDB = sqliteURL + databasePath

// DatabaseName is the default database's file name.
const DatabaseName = "agenthost.db"

const (
	sqliteURL    = "sqlite:///"
	databasePath = "data/" + DatabaseName
)

// A defaultDatabase is where a command without --session-db finds its sessions.
type defaultDatabase struct {
	// url is the database's.
	url string
	// notice describes a choice that may surprise; empty if there was none.
	notice string
	// nextToApp reports that the database is next to the app.
	nextToApp bool
}

// findDefaultDatabase returns the default database for an app or a folder of apps.
func findDefaultDatabase(dir string) defaultDatabase {
	wanted := filepath.Join(projectFolder(dir), databasePath)
	if strings.Contains(wanted, "?") { // begins the parameters of a URL
		return defaultDatabase{DefaultSessionDB, fmt.Sprintf("the path of %s contains ?: sessions are in %s of the current folder", filepath.Dir(wanted), databasePath), false}
	}
	older := []string{databasePath, filepath.Join(dir, databasePath)}
	if fileExists(wanted) {
		for _, file := range older {
			if fileExists(file) && !isSameFile(file, wanted) {
				return defaultDatabase{databaseURL(wanted), fmt.Sprintf("using the sessions in %s; %s has others: --session-db %s uses it", wanted, file, databaseURL(file)), true}
			}
		}
		return defaultDatabase{databaseURL(wanted), "", true}
	}
	for _, file := range older {
		if fileExists(file) {
			return defaultDatabase{databaseURL(file), fmt.Sprintf("using the sessions in %s; to find them from each folder, move them to %s", file, filepath.Dir(wanted)), false}
		}
	}
	return defaultDatabase{databaseURL(wanted), "", true}
}

// projectFolder returns the folder that contains an app, or the folder itself if it is a git
// repository or has no app: a relative path if it is below the current folder.
func projectFolder(dir string) string {
	full, err := filepath.Abs(dir)
	if err != nil {
		return "."
	}
	_, err = os.Lstat(filepath.Join(full, ".git"))
	isProject := err == nil
	if apps, err := loader.Discover(full); !isProject && (err != nil || len(apps) > 0 && apps[0] == full) {
		full = filepath.Dir(full)
	}
	current, err := os.Getwd()
	if err != nil {
		return full
	}
	if relative, err := filepath.Rel(current, full); err == nil && filepath.IsLocal(relative) {
		return relative
	}
	return full
}

// databaseURL returns a database file's URL.
func databaseURL(file string) string { return sqliteURL + filepath.ToSlash(file) }

func fileExists(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().IsRegular()
}

func isSameFile(a, b string) bool {
	first, err := os.Stat(a)
	if err != nil {
		return false
	}
	second, err := os.Stat(b)
	return err == nil && os.SameFile(first, second)
}

// LocateDatabase sets the session database next to the first of the folders, each an app or a folder
// of apps, unless --session-db is set; without folders it is the current one's. It returns a line
// for the user if the choice may surprise.
func (f *StoreFlags) LocateDatabase(dirs ...string) (notice string) {
	if f.SessionDB != "" {
		return ""
	}
	found := findDefaultDatabase(append(dirs, ".")[0])
	f.SessionDB, f.nextToApp = found.url, found.nextToApp
	return found.notice
}

// IsDefaultDatabase reports whether the command finds its session database without --session-db.
func (f *StoreFlags) IsDefaultDatabase() bool {
	return f.nextToApp || f.SessionDB == DefaultSessionDB
}

// PrintLocation locates the database, and prints a choice that may surprise.
func (f *StoreFlags) PrintLocation(env Env, dirs ...string) {
	if notice := f.LocateDatabase(dirs...); notice != "" {
		fmt.Fprintln(env.Err, notice)
	}
}

// DescribeDatabase returns the session database's file, or its URL without the password.
func (f *StoreFlags) DescribeDatabase() string { return displayDatabase(f.SessionDB) }

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// LocalArtifacts returns the folder that stores artifacts by default when the sessions are on a
// database server, or "".
func (f *StoreFlags) LocalArtifacts() string {
	if f.artifacts != "" || strings.HasPrefix(f.SessionDB, "sqlite") || !strings.Contains(f.SessionDB, "://") {
		return ""
	}
	return filepath.Dir(displayDatabase(DefaultSessionDB))
}

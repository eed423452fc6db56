package testdb

// How a command uses a database. Only commands that migrate may change an older schema.
const (
	Migrates = "migrates" // an older schema becomes the current one
	Reads    = "reads"    // reads schema version OldestRead and later
	ReadsAll = "reads all"
	Writes   = "writes"  // requires the current version
	Refuses  = "refuses" // has other files as its arguments, which are not there
)

// OldestRead is the first schema version that commands read without migrating it.
const OldestRead = 5

// A Command is an agenthost command line that opens $DB, with the flag --session-db if Args do not
// name it. $OTHER is an agenthost database with the current schema, and REVISION a revision of app
// echo.
type Command struct{ Name, Args, Use string }

// Commands returns the agenthost commands with a database, for the app echo and its session s.
func Commands() []Command {
	return []Command{
		{"serve", "", Migrates}, // in the script serve-old-schema
		{"run", "echo hi --session m", Migrates},
		{"mcp", "echo", Migrates},
		{"acp", "echo", Migrates},
		{"db migrate", "$DB", Migrates},

		{"db status", "$DB", ReadsAll},
		{"db check", "$DB", ReadsAll},
		{"doctor", "echo", ReadsAll},
		{"db backup", "missing/copy.db $DB", Refuses},
		{"db restore", "missing.db $DB --replace", Refuses},
		{"session list", "echo", Reads},
		{"session list", "echo --limit 5", Reads},
		{"session show", "echo s", Reads},
		{"session show", "echo s --json", Reads},
		{"session prune", "echo --older-than 1ns --dry-run", Reads},
		{"memory search", "echo hi", Reads},
		{"memory search", "echo hi --memory $DB", Reads},
		{"revisions", "echo", Reads},
		{"diff", "echo REVISION", Reads},
		{"plan", "echo", Reads},
		{"rollback", "echo REVISION", Reads},
		{"why", "echo s", Reads},
		{"outcomes", "echo", Reads},
		{"cost", "echo --by user,agent", Reads},
		{"rollout status", "echo", Reads},
		{"replay", "echo", Reads},
		{"preview", "echo --session s hi", Reads},
		{"record", "echo s", Reads},
		{"db import", "$DB --session-db $OTHER", Reads},
		{"db import", "$DB --session-db $OTHER --dry-run", Reads},

		{"db import", "$OTHER --session-db $DB", Writes},
		{"db import", "$OTHER --session-db $DB --dry-run", Writes},
		{"session delete", "echo s", Writes},
		{"session rewind", "echo s --turns 1", Writes},
		{"session rewind", "echo s --turns 1 hi", Writes},
		{"session prune", "echo --older-than 1ns", Writes},
		{"memory add", "echo s", Writes},
		{"memory delete", "echo s", Writes},
		{"rollout pause", "echo", Writes},
		{"rollout resume", "echo", Writes},
		{"rollout promote", "echo", Writes},
		{"rollout abort", "echo", Writes},
		{"eval", "echo", Writes},
	}
}

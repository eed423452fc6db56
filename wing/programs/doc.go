// Package programs runs the programs of apps: it asks the policy of the host for each
// call, gives each session a folder, and starts the program in the sandbox of its grant.
package programs

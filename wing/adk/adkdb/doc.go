// Package adkdb imports sessions from the databases of Google's ADKs, or from
// another agenthost database, into an agenthost database.
package adkdb

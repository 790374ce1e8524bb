"""What Alembic runs to apply revisions: over the connection that it is handed, in that connection's transaction."""

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()

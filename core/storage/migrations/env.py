"""What Alembic runs to apply revisions: over the connection that it is handed, in that connection's transaction."""

from alembic import context

from core.storage.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()

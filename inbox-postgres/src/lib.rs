//! The PostgreSQL store of [inbox](inbox_core): claims and effects in one transaction of a database server.
